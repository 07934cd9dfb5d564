"""The passes of the planner, in the order in which `compile` runs them.

Each takes a graph and gives a graph that means the same to the oracle, bit for bit (`columns` takes sums in another
order, unless numerics are strict), with a record of what it did; each can be run alone:

    graph, record = CSE.run(graph, target, options)
"""

from __future__ import annotations

from poot.plan.passes.canonicalise import CANONICALISE
from poot.plan.passes.columns import COLUMNS
from poot.plan.passes.cse import CSE
from poot.plan.passes.dce import DCE
from poot.plan.passes.fold import FOLD
from poot.plan.passes.inline import INLINE
from poot.plan.passes.legalise import LEGALISE
from poot.plan.passes.rewrite import Pass, Rewriter

#: What `compile` runs, in order.
PASSES: tuple[Pass, ...] = (INLINE, FOLD, CANONICALISE, CSE, COLUMNS, DCE, LEGALISE)

__all__ = ["CANONICALISE", "COLUMNS", "CSE", "DCE", "FOLD", "INLINE", "LEGALISE", "PASSES", "Pass", "Rewriter"]
