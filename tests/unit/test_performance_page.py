"""docs/performance.md quotes the committed results, row by row."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def table(path: str) -> list[dict[str, str]]:
    """The rows of a page's first table, by the names in its head."""
    lines = [line for line in (ROOT / path).read_text("utf-8").splitlines() if line.startswith("| ")]
    head, _, *rows = ([cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines)
    return [dict(zip(head, row, strict=True)) for row in rows]


def test_every_row_is_explained_with_its_figures() -> None:
    measured, explained = table("benchmarks/results/cpu.md"), table("docs/performance.md")
    assert [row["work"] for row in explained] == [row["work"] for row in measured]
    for page, result in zip(explained, measured, strict=True):
        assert page["poot"] == result["poot"]
        assert page["floor"] == result["floor"].partition(" (")[0]
        assert page["counted"] and page["what holds it back"]
