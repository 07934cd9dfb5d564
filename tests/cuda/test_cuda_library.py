"""Every kernel that ships, on a GPU through Triton and through PTX: the conformance tests of the library, and which
language each kernel ends in."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

import poot
from poot.api.devices import Device
from poot.kernel import library as kernels
from tests.conformance import test_kernel_library as conformance
from tests.conformance.test_kernel_library import *  # noqa: F403  # its tests run here on the device below
from tests.cuda.conftest import LANGUAGES
from tests.unit.test_render_library import EVERY, OPTIONS, SHARED


@pytest.fixture(scope="session", params=LANGUAGES)
def device(request: pytest.FixtureRequest) -> Device:
    """The first GPU, in each of its languages."""
    return poot.device("cuda", language=request.param)


def test_each_kernel_is_among_these_tests() -> None:
    tree = ast.parse(Path(conformance.__file__).read_text("utf-8"))
    launched = {
        node.func.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "library"
    }
    assert launched == set(kernels.__all__) == set(OPTIONS)


@pytest.mark.parametrize(("name", "options"), EVERY)
def test_kernels_compile_in_the_language_of_the_device(device: Device, name: str, options: dict[str, Any]) -> None:
    language = device.target.languages[0]
    made = getattr(conformance.library, name).compile(device.target, **options)
    assert made.language == ("ptx" if name in SHARED else language)
