"""The project's own checks: style rules, declared skips, and the shape of the configuration."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.plugin_skips import DeclaredSkips
from tools import check_style

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[2]


def findings(path: str, text: str) -> list[str]:
    return [f"{line}: {what}" for line, what in check_style.check_python(path, text)]


def test_a_long_module_needs_a_reason() -> None:
    text = "x = 1\n" * 401
    assert findings("poot/a.py", text) == [
        "1: 401 lines, over 400: split it, or say why near the top: '# size: <reason>'"
    ]
    assert findings("poot/a.py", "# size: one table, read from top to bottom\n" + text) == []
    assert findings("poot/a.py", "# size:\n" + text) != []
    assert findings("poot/a.py", "\n" * 15 + "# size: too far down\n" + text) != []
    assert findings("poot/a.py", "x = 1\n" * 400) == []


def test_a_long_function_is_refused() -> None:
    body = "def f():\n" + "    x = 1\n" * 99
    assert findings("poot/a.py", body) == []
    assert findings("poot/a.py", body + "    y = 2\n") == ["1: function f has 101 lines, over 100: split it"]


@pytest.mark.parametrize("path", ["poot/plan/a.py", "tests/unit/test_a.py", "examples/a.py"])
def test_dotted_imports_are_refused_everywhere(path: str) -> None:
    assert findings(path, "import poot.trace.graph as g\n") == [
        "1: write 'from poot.trace.graph import …' in place of 'import poot.trace.graph'"
    ]
    assert findings(path, "from poot.trace.graph import Graph\n") == []


def test_the_package_does_not_import_its_own_public_names() -> None:
    assert findings("poot/plan/a.py", "import poot\n") == [
        "1: inside poot/, import from the defining module, not from 'poot'"
    ]
    assert findings("poot/plan/a.py", "from poot import Array, dtypes\n") == [
        "1: inside poot/, import Array from its defining module, not from 'poot'"
    ]
    assert findings("poot/cli.py", "import poot\n") == []
    assert findings("tests/unit/test_a.py", "import poot\n") == []


def test_placeholders_are_refused_in_the_package() -> None:
    text = "def f():\n    raise NotImplementedError\n"
    assert len(findings("poot/a.py", text)) == 1
    assert findings("tests/a.py", text) == []


def test_dotted_imports_are_refused_in_documents() -> None:
    assert check_style.check_prose("```python\nimport poot\nimport poot.trace\n```\n")[0][0] == 3
    assert check_style.check_prose('  "import poot.kernel\\n",') != []
    assert check_style.check_prose("never write `import poot.trace`; import poot") == []


def test_every_layer_is_listed_in_order() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    names = " > ".join(layer.replace("(", "").replace(")", "") for layer in layers)
    assert names == (
        "__main__ > llm | cli > inspect > api > backends > plan > trace > kernel > target > saved > typed > "
        "foreign > dlpack > dtypes > errors > probe > records > scopes > forks"
    )


SKIPPING = """
    import pytest

    def test_passes():
        pass

    def test_skips():
        pytest.skip("no such machine")

    @pytest.mark.xfail(reason="known defect", strict=True)
    def test_xfails():
        assert False
"""


def run_with_plugin(pytester: pytest.Pytester, skips: str, xfails: str) -> pytest.RunResult:
    pytester.makepyfile(SKIPPING)
    pytester.makeconftest(
        f"""
        import sys

        sys.path.insert(0, {str(ROOT)!r})
        import tests.plugin_skips as plugin

        plugin.SKIPS = frozenset({{{skips}}})
        plugin.XFAILS = frozenset({{{xfails}}})

        def pytest_configure(config):
            config.pluginmanager.register(plugin.DeclaredSkips())
        """
    )
    return pytester.runpytest_subprocess("-p", "no:cacheprovider")


def test_a_declared_reason_is_counted(pytester: pytest.Pytester) -> None:
    result = run_with_plugin(pytester, "'no such machine'", "'known defect'")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "declared exceptions: 1 skipped, 1 expected to fail",
            "  1 skipped: no such machine",
            "  1 expected to fail: known defect",
        ]
    )


def test_an_undeclared_reason_fails_the_run(pytester: pytest.Pytester) -> None:
    result = run_with_plugin(pytester, "'no such machine'", "'other'")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["ERROR: not declared in tests/declared_skips.py: 'known defect'"])


def test_nothing_is_counted_before_a_run() -> None:
    assert DeclaredSkips().undeclared() == []
