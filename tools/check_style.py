"""Checks that linters do not offer: sizes, and how this project imports its own packages.

* A module has at most 400 lines, unless one of its first 15 lines gives a reason: ``# size: <reason>``.
* A function has at most 100 lines.
* ``import poot.trace…`` is refused in favour of ``from poot.trace.graph import …``: ``poot.trace`` and ``poot.kernel``
  are packages and decorators at once, and attribute access finds the decorator.
* Inside ``poot/`` nothing imports the public names from ``poot`` itself, which would run against the layers unseen.
* ``NotImplementedError`` has no place in ``poot/``: a feature that is missing refuses by name, with a typed error.

Run without arguments from anywhere; exits 1 and lists ``path:line: what`` where something is wrong.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CODE = ("poot", "tests", "tools", "examples", "benchmarks")
PROSE = ("*.md", "docs/**/*.md", "notebooks/**/*.ipynb")

MODULE_LINES = 400
FUNCTION_LINES = 100
REASON_WITHIN = 15
SIZE_REASON = re.compile(r"#\s*size:\s*\S")
DOTTED_IMPORT = re.compile(r"^\s*(?:>>>\s*|\")?import\s+poot\.\w")
ABOVE_THE_API = ("poot/__init__.py", "poot/cli.py", "poot/llm/")

Finding = tuple[int, str]


def module_size(lines: list[str]) -> Iterator[Finding]:
    """Yield a finding where a module is over the cap and gives no reason."""
    if len(lines) > MODULE_LINES and not any(SIZE_REASON.search(line) for line in lines[:REASON_WITHIN]):
        yield 1, f"{len(lines)} lines, over {MODULE_LINES}: split it, or say why near the top: '# size: <reason>'"


def function_sizes(tree: ast.Module) -> Iterator[Finding]:
    """Yield a finding for each function over the cap, decorators not counted."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            length = node.end_lineno - node.lineno + 1
            if length > FUNCTION_LINES:
                yield node.lineno, f"function {node.name} has {length} lines, over {FUNCTION_LINES}: split it"


def imports(tree: ast.Module, path: str, root: Path = ROOT) -> Iterator[Finding]:
    """Yield a finding for each import of the project that is written in a refused way."""
    inside = path.startswith("poot/") and not path.startswith(ABOVE_THE_API)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("poot."):
                    yield node.lineno, f"write 'from {alias.name} import …' in place of 'import {alias.name}'"
                elif alias.name == "poot" and inside:
                    yield node.lineno, "inside poot/, import from the defining module, not from 'poot'"
        elif isinstance(node, ast.ImportFrom) and node.module == "poot" and node.level == 0 and inside:
            for alias in node.names:
                name = root / "poot" / alias.name
                if not (name.is_dir() or name.with_suffix(".py").is_file()):
                    yield node.lineno, f"inside poot/, import {alias.name} from its defining module, not from 'poot'"


def placeholders(tree: ast.Module, path: str) -> Iterator[Finding]:
    """Yield a finding for each mention of NotImplementedError in the package."""
    if path.startswith("poot/"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and node.id == "NotImplementedError":
                yield node.lineno, "NotImplementedError: raise a typed error of poot.errors that names the feature"


def check_python(path: str, text: str) -> list[Finding]:
    """Return every finding in one Python module.

    Args:
        path: The module's path from the root, with forward slashes.
        text: Its source.
    """
    tree = ast.parse(text, filename=path)
    return [*module_size(text.splitlines()), *function_sizes(tree), *imports(tree, path), *placeholders(tree, path)]


def check_prose(text: str) -> list[Finding]:
    """Return every refused import in the code samples of a page or notebook."""
    return [
        (number, "documented code uses 'from poot.… import …', never 'import poot.…'")
        for number, line in enumerate(text.splitlines(), 1)
        if DOTTED_IMPORT.match(line)
    ]


def main() -> int:
    """Check the whole repository, print the findings, and return the exit status."""
    findings: list[str] = []
    for path in sorted(path for top in CODE for path in (ROOT / top).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        findings += [f"{name}:{line}: {what}" for line, what in check_python(name, path.read_text("utf-8"))]
    for path in sorted(path for pattern in PROSE for path in ROOT.glob(pattern)):
        name = path.relative_to(ROOT).as_posix()
        findings += [f"{name}:{line}: {what}" for line, what in check_prose(path.read_text("utf-8"))]
    print("\n".join(findings) if findings else "check_style: no findings")
    return bool(findings)


if __name__ == "__main__":
    sys.exit(main())
