"""A pytest plugin: skips and expected failures need a declared reason, and the run's summary counts them."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.declared_skips import SKIPS, XFAILS


def skip_reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return the reason a report was skipped for, without pytest's own prefix."""
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    return str(report.longrepr)


class DeclaredSkips:
    """Counts skips and expected failures by reason, and fails the run where a reason is not declared."""

    def __init__(self) -> None:
        self.skipped: Counter[str] = Counter()
        self.xfailed: Counter[str] = Counter()

    def _count(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped:
            if hasattr(report, "wasxfail"):
                self.xfailed[report.wasxfail.removeprefix("reason: ")] += 1
            else:
                self.skipped[skip_reason(report)] += 1

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._count(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._count(report)

    def undeclared(self) -> list[str]:
        """Return the reasons that were given but stand in no table, sorted."""
        return sorted((self.skipped.keys() - SKIPS) | (self.xfailed.keys() - XFAILS))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.undeclared() and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        line = f"declared exceptions: {self.skipped.total()} skipped, {self.xfailed.total()} expected to fail"
        terminalreporter.write_line(line)
        for verb, counts in (("skipped", self.skipped), ("expected to fail", self.xfailed)):
            for reason, count in sorted(counts.items()):
                terminalreporter.write_line(f"  {count} {verb}: {reason}")
        for reason in self.undeclared():
            terminalreporter.write_line(f"ERROR: not declared in tests/declared_skips.py: {reason!r}", red=True)
