"""What a relocatable object still needs from outside: the undefined symbols of an ELF or Mach-O file.

LLVM may turn an operation into a call of a maths library, and its linker would find that library in the process.
Kernels link against nothing, so objects are read before they are loaded.  The layouts are those of the System V ABI
(ELF-64) and of Apple's `mach-o/loader.h` and `mach-o/nlist.h`, both little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

_ELF_SYMBOL_TABLE = 2
_ELF_UNDEFINED = 0
_MACHO_64 = 0xFEEDFACF
_MACHO_SYMTAB = 2
_MACHO_EXTERNAL = 0x01
_MACHO_TYPE_MASK = 0x0E


def undefined_symbols(image: bytes) -> frozenset[str]:
    """The names, without Mach-O's leading underscore, that the object does not define itself.

    `ValueError` if it is neither a 64-bit little-endian ELF nor such a Mach-O object, or is damaged.
    """
    try:
        if image[:6] == b"\x7fELF\x02\x01":
            return frozenset(_elf(image))
        if len(image) >= 4 and struct.unpack_from("<I", image)[0] == _MACHO_64:
            return frozenset(_macho(image))
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"damaged object: {error}") from error
    raise ValueError("neither a 64-bit ELF nor a 64-bit Mach-O object")


def _elf(image: bytes) -> Iterator[str]:
    (sections_at,) = struct.unpack_from("<Q", image, 0x28)
    section_size, section_count = struct.unpack_from("<HH", image, 0x3A)
    # A section header: name, type: u32; flags, address, offset, size: u64; link, info: u32; alignment, entry size: u64.
    headers = [
        struct.unpack_from("<IIQQQQIIQQ", image, sections_at + index * section_size) for index in range(section_count)
    ]
    for _, kind, _, _, offset, size, link, _, _, entry in headers:
        if kind != _ELF_SYMBOL_TABLE:
            continue
        names_at = headers[link][4]
        for at in range(offset + entry, offset + size, entry):  # entry 0 is the null symbol
            name, _, _, section = struct.unpack_from("<IBBH", image, at)
            if section == _ELF_UNDEFINED and name:
                yield _text(image, names_at + name)


def _macho(image: bytes) -> Iterator[str]:
    (command_count,) = struct.unpack_from("<I", image, 16)
    at = 32
    for _ in range(command_count):
        command, size = struct.unpack_from("<II", image, at)
        if command == _MACHO_SYMTAB:
            symbols_at, count, names_at, _ = struct.unpack_from("<IIII", image, at + 8)
            for index in range(count):
                name, kind, _, _, value = struct.unpack_from("<IBBHQ", image, symbols_at + 16 * index)
                if kind & _MACHO_EXTERNAL and not kind & _MACHO_TYPE_MASK and value == 0:
                    yield _text(image, names_at + name).removeprefix("_")
        at += size


def _text(image: bytes, start: int) -> str:
    return image[start : image.index(b"\0", start)].decode()
