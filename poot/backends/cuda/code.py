"""What a compiled kernel for CUDA is, whichever language made it, and the form in which the disk cache keeps it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from poot.backends import cache


@dataclass(frozen=True, slots=True)
class CudaCode:
    """A loadable image (a cubin, or PTX text that ends in NUL) and what a launch of its function needs.

    `threads` is the block, laid out along x; `shared` the bytes of dynamic shared memory; `hidden` the number of
    pointers that follow the kernel's own parameters; `scratch` the bytes of global memory that the first of those wants
    for each block, `scratch_align` their alignment.
    """

    image: bytes = field(repr=False)
    entry: str
    threads: int
    shared: int = 0
    hidden: int = 0
    scratch: int = 0
    scratch_align: int = 1
    resources: tuple[tuple[str, int], ...] = ()
    text: str = field(default="", repr=False)

    def to_bytes(self) -> bytes:
        """A stable form that `from_bytes` reads back."""
        plain = asdict(self)
        image = plain.pop("image")
        head = json.dumps(plain, sort_keys=True).encode()
        return len(head).to_bytes(8, "little") + head + image

    @staticmethod
    def from_bytes(data: bytes) -> CudaCode | None:
        """The code that `to_bytes` wrote; None where the bytes are none, or another version's."""
        size = int.from_bytes(data[:8], "little")
        try:
            plain = json.loads(data[8 : 8 + size])
            plain["resources"] = tuple((name, int(value)) for name, value in plain["resources"])
            return CudaCode(image=data[8 + size :], **plain)
        except (ValueError, TypeError, KeyError, RecursionError):
            return None


def stored_code(key: str) -> CudaCode | None:
    """The code that the artifact cache keeps under a key, or None."""
    stored = cache.load(key)
    return None if stored is None else CudaCode.from_bytes(stored)
