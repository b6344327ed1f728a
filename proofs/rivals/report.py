"""What was measured, and how it is shown: raw figures, tables and charts.

Knows Markdown and files. Must never measure.
"""

import json
import os
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path

from proofs.rivals.charts import Bar, Chart, Panel, draw

OURS = "turntree"
MEASURES = {
    "append": "Append a turn: CPU",
    "bytes": "Append a turn: bytes on the disk",
    "load": "Load the whole thread: CPU",
    "fork": "Fork at the head: CPU",
    "fork bytes": "Fork at the head: bytes on the disk",
}
BYTES = frozenset({"bytes", "fork bytes"})
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"


@dataclass(frozen=True, slots=True)
class Cell:
    """One figure of one store, in microseconds or bytes."""

    measure: str
    size: int
    store: str
    value: float
    rounds: int
    times: int


@dataclass(frozen=True, slots=True)
class Store:
    """A store that was measured."""

    label: str
    distribution: str
    version: str
    forks_by: str


@dataclass(slots=True)
class Report:
    """Everything a run has found."""

    stores: dict[str, Store] = field(default_factory=dict[str, Store])
    fills: dict[tuple[str, int], str] = field(default_factory=dict[tuple[str, int], str])
    cells: list[Cell] = field(default_factory=list[Cell])

    def add(self, cell: Cell) -> None:
        """Keep a figure."""
        self.cells.append(cell)

    def cell(self, measure: str, size: int, store: str) -> Cell | None:
        """Return a figure, or None if it was not taken."""
        wanted = (measure, size, store)
        return next((c for c in self.cells if (c.measure, c.size, c.store) == wanted), None)

    def merged_with(self, older: "Report") -> "Report":
        """Return both, this one's sizes instead of the older one's."""
        mine = self.sizes()
        kept = [cell for cell in older.cells if cell.size not in mine]
        fills = {key: filled for key, filled in older.fills.items() if key[1] not in mine}
        return Report(older.stores | self.stores, fills | self.fills, kept + self.cells)

    def sizes(self) -> list[int]:
        """Return the lengths that were measured."""
        return sorted({cell.size for cell in self.cells})

    def measures(self, size: int) -> list[str]:
        """Return what was measured at a length, in the order of the tables."""
        found = {cell.measure for cell in self.cells if cell.size == size}
        return [measure for measure in MEASURES if measure in found]


def publish(report: Report, root: Path) -> None:
    """Write the charts, the raw figures, and the tables into the page that explains them.

    What is there of other sizes stays.
    """
    charts = root / "docs" / "benchmarks"
    charts.mkdir(parents=True, exist_ok=True)
    raw = charts / "peers.json"
    whole = report.merged_with(read_raw(raw)) if raw.exists() else report
    raw.write_text(_raw(whole), encoding="utf-8")
    for measure in MEASURES:
        for mode in ("light", "dark"):
            file = charts / f"{_name(measure)}-{mode}.svg"
            file.write_text(draw(_chart(whole, measure), mode), encoding="utf-8")
    page = root / "docs" / "explanation" / "benchmarks.md"
    page.parent.mkdir(parents=True, exist_ok=True)
    text = page.read_text(encoding="utf-8") if page.exists() else f"{BEGIN}\n{END}\n"
    tables = f"{BEGIN}\n\n{_tables(whole)}\n{END}"
    pattern = f"{re.escape(BEGIN)}.*{re.escape(END)}"
    page.write_text(re.sub(pattern, lambda _: tables, text, flags=re.DOTALL), encoding="utf-8")


def read_raw(file: Path) -> Report:
    """Return the report whose raw figures a file holds."""
    raw = json.loads(file.read_text(encoding="utf-8"))
    return Report(
        {name: Store(**store) for name, store in raw["stores"].items()},
        {(fill["store"], fill["size"]): fill["filled"] for fill in raw["fills"]},
        [Cell(**cell) for cell in raw["cells"]],
    )


def _raw(report: Report) -> str:
    raw = {
        "cores": os.cpu_count(),
        "units": {m: "bytes" if m in BYTES else "microseconds of CPU" for m in MEASURES},
        "stores": {name: asdict(store) for name, store in report.stores.items()},
        "fills": [
            {"store": store, "size": size, "filled": filled}
            for (store, size), filled in report.fills.items()
        ],
        "cells": [asdict(cell) for cell in report.cells],
    }
    return json.dumps(raw, indent=1) + "\n"


def _tables(report: Report) -> str:
    return "\n".join(_table(report, measure) for measure in MEASURES) + "\n" + _notes(report)


def _table(report: Report, measure: str) -> str:
    sizes = report.sizes()
    lines = [
        f"### {MEASURES[measure]}",
        "",
        _picture(measure),
        "",
        "| store | " + " | ".join(f"{size:,} turns" for size in sizes) + " |",
        "|---|" + "--:|" * len(sizes),
    ]
    for name, store in report.stores.items():
        label = f"**{store.label}**" if name == OURS else store.label
        if measure.startswith("fork") and name != OURS:
            label += f" ({store.forks_by})"
        shown = [_compared(report, measure, size, name) for size in sizes]
        lines.append(f"| {label} | " + " | ".join(shown) + " |")
    return "\n".join(lines) + "\n"


def _picture(measure: str) -> str:
    file = f"../benchmarks/{_name(measure)}"
    return (
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="{file}-dark.svg">'
        f'<img src="{file}-light.svg" alt="{MEASURES[measure]}; the table below has the figures">'
        "</picture>"
    )


def _name(measure: str) -> str:
    return measure.replace(" ", "-")


def _compared(report: Report, measure: str, size: int, name: str) -> str:
    cell, ours = report.cell(measure, size, name), report.cell(measure, size, OURS)
    if cell is None:
        return "not counted" if measure in BYTES else "not run"
    mark = "" if report.fills[name, size].startswith("turn by turn") else " †"
    once = " ‡" if cell.rounds == 1 and measure not in BYTES else ""
    if name == OURS:
        return f"**{show(cell.value, measure)}**"
    ratio = "" if ours is None else f" (×{_short(cell.value / ours.value)})"
    return f"{show(cell.value, measure)}{mark}{once}{ratio}"


def _notes(report: Report) -> str:
    installed = {f"{store.distribution} {store.version}" for store in report.stores.values()}
    ways: dict[tuple[str, str], list[str]] = {}
    for (name, size), filled in sorted(report.fills.items()):
        if not filled.startswith("turn by turn"):
            ways.setdefault((report.stores[name].label, filled), []).append(f"{size:,}")
    lines = [f"Versions: {', '.join(sorted(installed))}.", ""]
    if ways:
        told = "; ".join(
            f"{label} at {' and '.join(sizes)} turns by {filled}"
            for (label, filled), sizes in ways.items()
        )
        lines += [f"† preloaded: {told}.", ""]
    lines += ["‡ measured once, because it takes so long.", ""]
    return "\n".join(lines)


def _chart(report: Report, measure: str) -> Chart:
    panels: list[Panel] = []
    for size in report.sizes():
        bars: list[Bar] = []
        for name, store in report.stores.items():
            cell = report.cell(measure, size, name)
            value = None if cell is None else cell.value
            missing = "not counted" if measure in BYTES else "not run"
            shown = missing if cell is None else show(cell.value, measure)
            bars.append(Bar(store.label, value, shown, ours=name == OURS))
        panels.append(Panel(f"{size:,} turns", tuple(bars)))
    return Chart(
        MEASURES[measure],
        "Less is better. Each line stands for ten times the one before it.",
        tuple(panels),
    )


def show(value: float, measure: str) -> str:
    """Return a figure with a unit that a person would choose."""
    steps = (
        ((1, "B"), (1e3, "KB"), (1e6, "MB"), (1e9, "GB"))
        if measure in BYTES
        else ((1, "µs"), (1e3, "ms"), (1e6, "s"))
    )
    scale, unit = next(
        (step for step in reversed(steps) if value >= step[0]),
        steps[0],
    )
    return f"{_short(value / scale)} {unit}"


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.2g}" if number < 1 else f"{number:.1f}"
