"""Control: equations whose regions become steps of the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poot.errors import Unsupported
from poot.plan.groups import Group
from poot.plan.program import Step

if TYPE_CHECKING:
    from poot.plan.assemble import Block


def lower_control(block: Block, number: int, group: Group) -> list[Step]:
    """The steps of one equation that takes and gives whole buffers."""
    equation = group.members[number]
    reason = block.fusion.declined.get(number, "it has no schedule")
    raise Unsupported(
        what=f"equation {number} ({equation.primitive})",
        target=block.assembly.target,
        message=reason,
        where=equation.where,
    )
