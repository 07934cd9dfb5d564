"""What makes LLVM text readable: the user's lines as comments, and parameters by the names that they have."""

from __future__ import annotations

from poot.errors import SourceLocation
from poot.kernel.ir import Slot

_AXES = "xyz"


def argument_name(slot: Slot) -> str:
    """The operand of a slot's parameter; no name that the emitter makes has a full stop."""
    match slot.kind:
        case "buffer" | "scalar":
            return f"%arg.{slot.param}"
        case "extent" | "stride":
            return f"%arg.{slot.param}.{slot.kind}.{slot.axis}"
        case "launch" | "fault":
            return f"%own.{slot.kind}"
        case _:
            return f"%own.{slot.kind}.{_AXES[slot.axis]}"


def user_line(where: SourceLocation) -> str:
    """A line of the user's program for a comment: file, number and text."""
    file, text = where.file.replace("\\", "/").rpartition("/")[2], where.text.strip()
    return f"{file}:{where.line}" + (f": {text}" if text else "")


def uncommented(text: str) -> str:
    """LLVM text without its comments: what is the same for the same code, wherever in a file it stands."""
    return "\n".join(line for line in text.split("\n") if not line.lstrip().startswith(";"))
