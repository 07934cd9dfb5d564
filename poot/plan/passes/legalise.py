"""Legalisation: what a target can only do in parts is split."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from poot.plan.passes.rewrite import Pass, Rewriter
from poot.trace.graph import Atom, Value

#: Buffers of a kernel that are not operands: its result, and the fault record.
_OTHERS = 2


def _run(rewriter: Rewriter) -> None:
    """Join arrays in several steps where a target's kernels cannot bind all of them at once.

    A concat of more arrays than fit becomes one of concats, as balanced as can be.  Other limits are kept to later: by
    fusion (buffers of a kernel), by schedules (grids, work-groups), or not at all, which is told for each launch.
    """
    room = rewriter.target.limit("buffers") - _OTHERS
    for number, equation in enumerate(rewriter.graph.equations):
        arrays = {atom.id for atom in equation.inputs if isinstance(atom, Value)}
        if equation.primitive != "concat" or len(arrays) <= room or room < 2:
            rewriter.keep(number)
            continue
        parts = _joined(rewriter, number, rewriter.atoms(equation.inputs), room)
        rewriter.replace(number, rewriter.emit(number, "concat", parts, dict(equation.params)))
        rewriter.notes.append(f"equation {number}: {len(arrays)} arrays joined at most {room} at a time")


def _joined(rewriter: Rewriter, number: int, atoms: Sequence[Atom], room: int) -> Sequence[Atom]:
    """At most `room` atoms whose concat is that of all."""
    params = dict(rewriter.graph.equations[number].params)
    while len(atoms) > room:
        count = -(-len(atoms) // room)
        bounds = [len(atoms) * part // count for part in range(count + 1)]
        chunks = [atoms[low:high] for low, high in pairwise(bounds)]
        atoms = [c[0] if len(c) == 1 else rewriter.emit(number, "concat", c, params)[0] for c in chunks]
    return atoms


LEGALISE = Pass("legalise", _run, growth=2)
