"""What `poot doctor` prints."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from poot.cli.doctor import Facts

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def show(facts: Facts, console: Console) -> None:
    """Print the facts; what is wrong comes last."""
    console.print(f"poot {facts.version}, Python {facts.python}", highlight=False)
    default = facts.default or "[red]none[/red]"
    console.print(f"default device: {default}", highlight=False)
    console.print(_devices(facts))
    kind, threads = facts.pool
    if kind:
        how = "wait on a futex" if kind == "futex" else "wait in Python: slower to wake"
        console.print(f"worker pool of cpu: {kind} ({threads} threads; idle ones {how})", highlight=False)
    for each in facts.caches:
        most = f" of at most {size(each.most)}" if each.most > 0 else ""
        line = f"cache of {each.what}: {each.path}, {each.files} files, {size(each.nbytes)}{most}"
        console.print(escape(line), highlight=False, soft_wrap=True)
    console.print(_packages(facts))
    for name, value in facts.settings:
        console.print(escape(f"{name}={value}"), highlight=False, soft_wrap=True)
    if facts.problems:
        console.print("[red]What is wrong:[/red]")
        for problem in facts.problems:
            console.print(escape(f"- {problem}"), highlight=False, soft_wrap=True)
    else:
        console.print("[green]Everything that is installed works.[/green]")


def _devices(facts: Facts) -> Table:
    """What is here; a remedy that stands below, under what is wrong, is not said twice."""
    table = Table("device", "state", "what it is, or why it is not here", title="Devices", title_justify="left")
    for each in facts.devices:
        if each.error is not None:
            below = any(each.remedy in problem for problem in facts.problems)
            text = escape(each.reason) + (f"\nremedy: {escape(each.remedy)}" if each.remedy and not below else "")
            table.add_row(each.name, "[yellow]absent[/yellow]", text)
        for name, text in each.hardware:
            table.add_row(name, "[green]works[/green]", escape(text))
    return table


def _packages(facts: Facts) -> Table:
    table = Table("package", "installed", "wanted", title="Packages", title_justify="left")
    for package in facts.packages:
        state = package.installed or "-"
        state = state if package.fits or not package.installed else f"[red]{state}[/red]"
        table.add_row(package.name, state, package.wanted or "-")
    return table


def size(nbytes: int) -> str:
    """A number of bytes in the unit that suits it."""
    value, unit = float(nbytes), 0
    while value >= 1024 and unit + 1 < len(_UNITS):
        value, unit = value / 1024, unit + 1
    return f"{nbytes} bytes" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"
