"""Reads code objects of AMD's GPUs as a loader does: ELF file, dynamic symbols, kernel descriptors, metadata.

Layouts are those of "User Guide for AMDGPU Backend" in LLVM's documentation.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

MACHINE = 224
"""EM_AMDGPU, the machine in the header of the file."""

ARCHITECTURES = {0x3F: "gfx90a", 0x4C: "gfx942", 0x4F: "gfx950"}
_NOTE, _DYNAMIC_SYMBOLS, _METADATA = 7, 11, 32


@dataclass(frozen=True)
class Descriptor:
    """What the hardware is told of a kernel, in bytes: shared memory, stack of a thread, arguments; and its code."""

    shared: int
    stack: int
    arguments: int
    code: int


@dataclass(frozen=True)
class CodeObject:
    """A code object: its architecture, the addresses of its symbols, descriptors by kernel, and its metadata."""

    arch: str
    symbols: dict[str, int]
    descriptors: dict[str, Descriptor]
    metadata: dict[str, Any]

    def kernel(self, name: str) -> dict[str, Any]:
        """The metadata of a kernel."""
        (found,) = (kernel for kernel in self.metadata["amdhsa.kernels"] if kernel[".name"] == name)
        return found


def arguments(kernel: dict[str, Any]) -> list[tuple[int, int, str]]:
    """Offset, size and kind of each argument that a launch passes: those that the driver adds are left out."""
    rows = [(row[".offset"], row[".size"], row[".value_kind"]) for row in kernel[".args"]]
    return [row for row in rows if not row[2].startswith("hidden_")]


def read(image: bytes) -> CodeObject:
    """The code object in a file's bytes."""
    assert image[:4] == b"\x7fELF" and struct.unpack_from("<H", image, 18)[0] == MACHINE
    (table,), (flags,) = struct.unpack_from("<Q", image, 0x28), struct.unpack_from("<I", image, 0x30)
    size, count = struct.unpack_from("<HH", image, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, table + size * n) for n in range(count)]
    symbols: dict[str, int] = {}
    descriptors: dict[str, Descriptor] = {}
    metadata: dict[str, Any] = {}
    for _, kind, _, _, start, length, link, *_ in sections:
        if kind == _DYNAMIC_SYMBOLS:
            names = sections[link][4]
            for at in range(start + 24, start + length, 24):
                name, _, _, section, value, _ = struct.unpack_from("<IBBHQQ", image, at)
                text = image[names + name : image.index(b"\0", names + name)].decode()
                symbols[text] = value
                if text.endswith(".kd"):
                    place = value - sections[section][3] + sections[section][4]
                    shared, stack, size_, _, entry = struct.unpack_from("<IIIIq", image, place)
                    descriptors[text.removesuffix(".kd")] = Descriptor(shared, stack, size_, value + entry)
        elif kind == _NOTE:
            owner, described, number = struct.unpack_from("<III", image, start)
            body = start + 12 + -(-owner // 4) * 4
            if number == _METADATA:
                metadata, end = _unpack(image, body)
                assert end == body + described
    return CodeObject(ARCHITECTURES[flags & 0xFF], symbols, descriptors, metadata)


def _unpack(data: bytes, at: int) -> tuple[Any, int]:
    """A value in MessagePack, and where the next one begins."""
    head, at = data[at], at + 1
    if head < 0x80:
        return head, at
    if head < 0x90:
        return _map(data, at, head & 15)
    if head < 0xA0:
        return _array(data, at, head & 15)
    if head < 0xC0:
        return data[at : at + (head & 31)].decode(), at + (head & 31)
    if head in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[head], at
    width = {0xCC: 1, 0xD9: 1, 0xCD: 2, 0xDA: 2, 0xDC: 2, 0xDE: 2, 0xCE: 4, 0xDB: 4, 0xDD: 4, 0xDF: 4, 0xCF: 8}[head]
    number, at = int.from_bytes(data[at : at + width], "big"), at + width
    if head in (0xD9, 0xDA, 0xDB):
        return data[at : at + number].decode(), at + number
    if head in (0xDC, 0xDD):
        return _array(data, at, number)
    return _map(data, at, number) if head in (0xDE, 0xDF) else (number, at)


def _array(data: bytes, at: int, count: int) -> tuple[list[Any], int]:
    values: list[Any] = []
    for _ in range(count):
        value, at = _unpack(data, at)
        values.append(value)
    return values, at


def _map(data: bytes, at: int, count: int) -> tuple[dict[Any, Any], int]:
    flat, at = _array(data, at, 2 * count)
    return dict(zip(flat[::2], flat[1::2], strict=True)), at
