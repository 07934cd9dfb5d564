"""The Python code blocks of the README and of every page under docs/ run, each page as one program of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(\S*)[ \t]*$")


def program(page: str) -> str:
    """Return a page's ```python blocks as one program, on the lines where they stand in the page."""
    lines: list[str] = []
    inside, language = False, ""
    for line in page.splitlines():
        fence = FENCE.match(line)
        if fence:
            inside, language = not inside, fence[1]
        lines.append(line if inside and language == "python" and not fence else "")
    assert not inside, "a code block is left open"
    return "\n".join(lines) + "\n"


def pages() -> list[str]:
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [path.relative_to(ROOT).as_posix() for path in found if program(path.read_text("utf-8")).strip()]


@pytest.mark.parametrize("page", pages())
def test_code_blocks_run(page: str, tmp_path: Path) -> None:
    script = tmp_path / f"{Path(page).stem}.py"
    script.write_text(program((ROOT / page).read_text("utf-8")), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)], cwd=ROOT, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, f"{page}, at the line named below:\n{done.stderr}"


def test_links_between_pages_lead_somewhere() -> None:
    broken = [
        f"{path.relative_to(ROOT)}: {target}"
        for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", path.read_text("utf-8"))
        if not (path.parent / target).exists()
    ]
    assert broken == []
