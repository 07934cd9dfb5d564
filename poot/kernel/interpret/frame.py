"""What the statements of a kernel share while one chunk of lanes runs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from poot.kernel.faults import claim, fault_error, new_record
from poot.kernel.interpret.affine import Affine, Value, affine, as_array, divided
from poot.kernel.interpret.memory import Memory
from poot.kernel.interpret.races import Watch, WatchedMemory
from poot.kernel.interpret.space import Array, Mask, Space
from poot.kernel.ir import Kernel

AXES = "xyz"


@dataclass(slots=True)
class Faults:
    """Where failed checks go: into a record if the launch has one, else they are raised at once."""

    kernel: Kernel
    launch: int
    record: npt.NDArray[np.int32] | None

    def claim(self, site: int, axis: int = 0, index: int = 0, extent: int = 0) -> None:
        """Note or raise a fault."""
        if self.record is None:
            record = new_record()
            claim(record, self.launch, site, axis, index, extent)
            raise fault_error(self.kernel, record)
        claim(self.record, self.launch, site, axis, index, extent)


@dataclass(slots=True)
class Turns:
    """Lanes of the innermost loop that have left it, and that wait for its next turn."""

    broken: Mask = False
    continued: Mask = False


@dataclass(slots=True)
class Frame:
    """One chunk: its lanes, which of them are active, locals and arrays."""

    kernel: Kernel
    space: Space
    mask: Mask
    faults: Faults
    groups: tuple[int, int, int]
    threads: tuple[int, int, int]
    env: dict[str, Value]
    watch: Watch | None = None
    arrays: dict[str, Memory] = field(default_factory=dict[str, Memory])
    turns: Turns = field(default_factory=Turns)
    numbers: dict[tuple[str, int], Value] = field(default_factory=dict[tuple[str, int], Value])

    def array(
        self,
        name: str,
        kind: str,
        storage: Array,
        extents: tuple[int, ...],
        strides: tuple[int, ...],
        offset: int = 0,
        steps: tuple[int, ...] | None = None,
    ) -> None:
        """Add a buffer, or a shared or private array."""
        layout = storage, extents, strides, self.space, offset, steps
        watch = self.watch
        self.arrays[name] = Memory(*layout) if watch is None else WatchedMemory(*layout).watched(watch, name, kind)

    def number(self, kind: str, axis: int) -> Value:
        """A number of the launch for every lane."""
        key = kind, axis
        found = self.numbers.get(key)
        if found is None:
            found = self.numbers[key] = self._number(kind, axis)
        return found

    def _number(self, kind: str, axis: int) -> Value:
        dtype = self.kernel.index_dtype.dtype
        size = self.kernel.workgroup[axis]
        name = AXES[axis]
        whole = f"thread {name}" in self.space.fixed or f"thread {name}" in self.space.names
        match kind:
            case "group_size":
                return dtype.type(size)
            case "num_groups":
                return dtype.type(self.groups[axis])
            case "threads":
                return dtype.type(self.threads[axis])
            case "thread" if whole:
                return self._stepping(self.space.steps(f"thread {name}"))
            case "thread":
                outer, inner = self.space.steps(f"group {name}", size), self.space.steps(f"local {name}")
                steps = tuple(a + b for a, b in zip(outer[1], inner[1], strict=True))
                return self._stepping((outer[0] + inner[0], steps))
            case _ if whole:
                return self._part(kind, self.number("thread", axis), size)
            case _:
                return self._stepping(self.space.steps(f"{kind} {name}"))

    def _stepping(self, ramp: tuple[int, tuple[int, ...]]) -> Value:
        value = affine(self.space, *ramp, self.kernel.index_dtype.dtype)
        assert value is not None, "a launch checks that its numbers fit the index dtype"
        return value

    def _part(self, kind: str, thread: Value, size: int) -> Value:
        """The group or local number, from the number of the thread."""
        parts = divided(thread, size) if isinstance(thread, Affine) else None
        if parts is not None:
            return parts[kind == "local"]
        array: Array = as_array(thread)
        width = array.dtype.type(size)
        return np.floor_divide(array, width) if kind == "group" else np.remainder(array, width)
