"""One script on every device, chosen by an argument or by POOT_DEVICE: the same embeddings."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import poot
from examples.encode import encode, main

GOLDEN = json.loads((Path(__file__).parents[1] / "data" / "minilm_golden.json").read_text("utf-8"))
SHORT = 9
"""The shortest of the stored sentences."""


@pytest.mark.slow_on("opencl", "wgpu")
def test_the_argument_and_the_variable(device_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = np.array(GOLDEN["embedding"])[[SHORT]]
    monkeypatch.setenv("POOT_DEVICE", device_name)
    assert poot.device().name == device_name
    assert np.abs(encode([GOLDEN["sentences"][SHORT]]) - expected).max() <= 1e-5


@pytest.mark.slow
def test_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["encode.py", "--device", "cpu", "A cat.", "A cat.", "Shares fell."])
    main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "on cpu:"
    assert [line.split()[0] for line in lines[1:3]] == ["1.0000", "1.0000"] and float(lines[3].split()[0]) < 0.5
