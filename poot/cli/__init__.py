"""The command line: `poot doctor` says what is here, what is not, and what would mend it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from rich.console import Console

from poot.backends.survey import poot_version
from poot.cli.doctor import examine
from poot.cli.report import show


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit code."""
    parser = argparse.ArgumentParser(prog="poot", description="A tensor compute stack.")
    parser.add_argument("--version", action="version", version=f"poot {poot_version()}")
    commands = parser.add_subparsers(dest="command", required=True)
    doctor = commands.add_parser(
        "doctor",
        help="say which devices are here, why others are not, and what would mend that",
        description="Exits with 0 where everything that is installed or asked for works, else with 1.",
    )
    doctor.add_argument("--json", action="store_true", help="print one JSON object")
    doctor.add_argument("--device", metavar="NAME", help="exit with 1 unless this device works")
    given = parser.parse_args(arguments)
    facts = examine(given.device)
    if given.json:
        sys.stdout.write(json.dumps(facts.plain(), indent=2) + "\n")
    else:
        show(facts, Console())
    return int(bool(facts.problems))
