"""Write the promotion table of docs/dtypes.md from poot's lattice.

python tools/promotion_table.py            # rewrite the page's table
python tools/promotion_table.py --check    # fail if it is not what the lattice gives
"""

from __future__ import annotations

import argparse
from pathlib import Path

from poot.dtypes import ALL, DType, WeakKind, promote

PAGE = Path(__file__).resolve().parents[1] / "docs" / "dtypes.md"
START, END = "<!-- promotion table -->\n", "<!-- end of the table -->\n"
NAMES: dict[str, str] = {"int*": "int", "float*": "float"}
OPERANDS: tuple[DType | WeakKind, ...] = (*ALL, "int*", "float*")


def name(operand: DType | WeakKind) -> str:
    """What the table calls a dtype or a weak number."""
    return NAMES[operand] if isinstance(operand, str) else operand.name


def table() -> str:
    """The lattice as a Markdown table: one row and column an operand."""
    rows = [["", *map(name, OPERANDS)], ["---"] * (len(OPERANDS) + 1)]
    rows += [[name(one), *(name(promote([one, other])) for other in OPERANDS)] for one in OPERANDS]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def main() -> None:
    """Rewrite the table, or check it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--check", action="store_true", help="only compare")
    check: bool = parser.parse_args().check
    page = PAGE.read_text("utf-8")
    head, rest = page.split(START)
    fresh = head + START + table() + END + rest.split(END)[1]
    if check and fresh != page:
        raise SystemExit("docs/dtypes.md is stale: run python tools/promotion_table.py")
    PAGE.write_text(fresh, "utf-8")


if __name__ == "__main__":
    main()
