"""The struct of a shader's parameters, word by word."""

from __future__ import annotations

from poot.kernel.ir import Kernel, Slot, argument_slots

#: The words of the struct that no slot of the kernel stands for, and that come first.
FIXED_WORDS = ("zero", "folded", "num_groups_x", "num_groups_y", "num_groups_z")


def parameter_words(kernel: Kernel, *, faults: bool) -> tuple[tuple[Slot, int], ...]:
    """The words of the struct after the fixed ones: a slot of `argument_slots`, and how many words it takes.

    The word of a buffer or of the fault record is the number of its first element in what is bound; numbers of 64 bits
    have their low word first.
    """
    slots = [slot for slot in argument_slots(kernel) if slot.kind != "num_groups"]
    slots = [slot for slot in slots if faults or slot.kind not in ("launch", "fault")]
    return tuple((slot, 2 if slot.kind not in ("buffer", "fault") and slot.dtype.bits == 64 else 1) for slot in slots)
