"""Saved graphs, programs, targets, kernels and weights, damaged at random: only poot's own errors come out."""

from __future__ import annotations

import hashlib
import json
import os
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import poot
from poot.backends.safetensor_files import read_safetensors
from poot.errors import ArgumentError, PootError, SerialisationError, WeightFileError
from poot.kernel import codec
from poot.plan.serial import dump_program, load_program
from poot.target import Target
from poot.trace import ops
from poot.trace.graph import Graph
from poot.trace.text import parse_graph

ROUNDS = 150
PIECES = [
    "", "[", "]", "{", "}", '"', "\\", ",", ":", "-", "0", "9" * 5000, "1e999", "null", "\0", "\ud800", "\\ud800",
    "[" * 3000, "(" * 3000, '{"a":' * 3000, "18446744073709551616", "-1", "[0]", "{}", '""', "true", "f32", "%1", "f8",
]  # fmt: skip


def damaged(text: str, rng: random.Random) -> str:
    """A text with a piece cut out, copied elsewhere, or replaced."""
    for _ in range(rng.randint(1, 3)):
        first = rng.randint(0, len(text))
        last = min(len(text), first + rng.choice([0, 0, 1, 1, 2, 5, 30]))
        piece = rng.choice(PIECES) if rng.random() < 0.7 else text[rng.randint(0, len(text)) :][: rng.randint(0, 40)]
        text = text[:first] + piece + text[last:]
    return text


def scaled(x: Any, w: Any) -> Any:
    return ops.scan(lambda c, row: (c + ops.sum(row) * 0.5, c), ops.sum(x @ w), x)


def signed(container: dict[str, Any], field: str, text: str) -> bytes:
    """A container whose text has been changed, and its digest with it."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return json.dumps(container | {field: text, "sha256": digest}).encode()


LOADERS: dict[str, Callable[[], tuple[str, Callable[[str], object]]]] = {}


def loader(
    make: Callable[[], tuple[str, Callable[[str], object]]],
) -> Callable[[], tuple[str, Callable[[str], object]]]:
    LOADERS[make.__name__] = make
    return make


def graph() -> Graph:
    x = np.ones((3, 4), np.float32)
    return poot.trace(scaled).graph(x, x.T.copy())


@loader
def graph_text() -> tuple[str, Callable[[str], object]]:
    return str(graph()), parse_graph


@loader
def graph_file() -> tuple[str, Callable[[str], object]]:
    return graph().to_bytes().decode(), lambda text: Graph.from_bytes(text.encode("utf-8", "surrogatepass"))


@loader
def signed_graph() -> tuple[str, Callable[[str], object]]:
    container = json.loads(graph().to_bytes())
    return container["graph"], lambda text: Graph.from_bytes(signed(container, "graph", text))


def program() -> bytes:
    x = np.ones((3, 4), np.float32)
    return dump_program(poot.compile(graph(), Target.parse("interpret"))) if x.size else b""


@loader
def program_file() -> tuple[str, Callable[[str], object]]:
    return program().decode(), lambda text: load_program(text.encode("utf-8", "surrogatepass"))


@loader
def signed_program() -> tuple[str, Callable[[str], object]]:
    container = json.loads(program())
    return container["program"], lambda text: load_program(signed(container, "program", text))


@loader
def target() -> tuple[str, Callable[[str], object]]:
    return Target.parse("cuda:sm_90").to_json(), Target.from_json


@loader
def kernel() -> tuple[str, Callable[[str], object]]:
    return codec.encode(load_program(program()).kernels[0]), codec.decode


@pytest.mark.parametrize("kind", LOADERS)
def test_damaged_texts(kind: str) -> None:
    text, load = LOADERS[kind]()
    load(text)
    rng = random.Random(0)
    refused = 0
    for _ in range(ROUNDS):
        try:
            load(damaged(text, rng))
        except PootError:
            refused += 1
    assert refused > ROUNDS // 2


DEEP = ["[" * 100_000, '{"a":' * 50_000, "(" * 100_000]


@pytest.mark.parametrize("deep", DEEP)
@pytest.mark.parametrize("kind", LOADERS)
def test_deep_nesting(kind: str, deep: str) -> None:
    with pytest.raises(PootError):
        LOADERS[kind]()[1](deep)


@pytest.mark.parametrize("text", ["no JSON", "[" * 100_000, "[]", "\ud800", '{"graph": "\\ud800"}'])
def test_programs_whose_text_is_none(text: str) -> None:
    with pytest.raises(SerialisationError, match=r"damaged|it has no planned"):
        load_program(signed(json.loads(program()), "program", text))


def weights(header: str) -> bytes:
    data = header.encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(data)) + data + bytes(40)


HEADER = (
    '{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"b":{"dtype":"I64","shape":[2],"data_offsets":[24,40]}}'
)
INDEX = '{"metadata":{"total_size":40},"weight_map":{"a":"part.safetensors","b":"part.safetensors"}}'


def test_damaged_weights(tmp_path: Path) -> None:
    part, index, rng = tmp_path / "part.safetensors", tmp_path / "m.safetensors.index.json", random.Random(0)
    part.write_bytes(weights(HEADER))
    index.write_text(INDEX)
    assert sorted(read_safetensors(index)) == ["a", "b"]
    for _ in range(ROUNDS):
        for path, data in (
            (index, damaged(INDEX, rng).encode("utf-8", "surrogatepass")),
            (part, weights(damaged(HEADER, rng))),
        ):
            path.write_bytes(data)
            try:
                read_safetensors(path)
            except WeightFileError:
                pass
        part.write_bytes(weights(HEADER))


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_names_that_no_file_can_have(name: str, tmp_path: Path) -> None:
    index = tmp_path / "m.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": name}}))
    for path in (index, tmp_path / name):
        with pytest.raises(WeightFileError, match=r"is no name of a file|half of a pair of UTF-16"):
            read_safetensors(path)
    with pytest.raises(ArgumentError, match=r"load_program: .* is not valid, expected the name of a file"):
        load_program(name)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_pipes_are_no_files(tmp_path: Path) -> None:
    for name in ("a.safetensors", "a.safetensors.index.json"):
        os.mkfifo(tmp_path / name)
        with pytest.raises(WeightFileError, match="is no regular file"):
            read_safetensors(tmp_path / name)


@pytest.mark.parametrize("text", ["%" + "9" * 5000, "%0: f32[" + "9" * 5000 + "]"])
def test_numbers_of_thousands_of_digits(text: str) -> None:
    written = str(graph())
    with pytest.raises(PootError):
        parse_graph(written.replace("%0", text, 1))
