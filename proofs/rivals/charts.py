"""Bars on a logarithmic scale, as SVG: one panel a length, one row a store.

A pure function from values to text. Must never know what the bars stand for.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Literal

Mode = Literal["light", "dark"]
FONT = "'IBM Plex Sans', 'Helvetica Neue', Arial, sans-serif"
PALETTES: Mapping[str, Mapping[str, str]] = {
    "light": {
        "paper": "#fbfaf7", "ink": "#1c1b19", "quiet": "#6b6862", "accent": "#2b46c8",
        "peer": "#b9b5ab", "line": "#e4e1d9",
    },
    "dark": {
        "paper": "#131210", "ink": "#ece8df", "quiet": "#9c978c", "accent": "#9aabff",
        "peer": "#5d5a53", "line": "#2b2925",
    },
}  # fmt: skip
EDGE, NAMES, PANEL, GAP = 24, 186, 200, 22
VALUE_ROOM = 62
"""Right of the longest bar, for its figure."""
TOP, ROW, BAR = 92, 30, 16
BASELINE = 12.5


@dataclass(frozen=True, slots=True)
class Bar:
    """One store's figure; None if it was not taken."""

    label: str
    value: float | None
    shown: str
    ours: bool


@dataclass(frozen=True, slots=True)
class Panel:
    """The bars of one length."""

    title: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """Panels that share their rows and their scale."""

    title: str
    subtitle: str
    panels: tuple[Panel, ...]


def draw(chart: Chart, mode: str) -> str:
    """Return the chart as an SVG document."""
    colours = PALETTES[mode]
    rows = chart.panels[0].bars
    width = 2 * EDGE + NAMES + len(chart.panels) * (PANEL + GAP) - GAP
    height = TOP + len(rows) * ROW + EDGE
    low, high = _decades(chart)
    document = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-labelledby="title desc" '
        f'font-family="{FONT}">'
    )
    parts = [
        document,
        f'<title id="title">{escape(chart.title)}</title>',
        f'<desc id="desc">{escape(_described(chart))}</desc>',
        f'<rect width="{width}" height="{height}" rx="6" fill="{colours["paper"]}"/>',
        _text(EDGE, 36, chart.title, colours["ink"], 17, "600"),
        _text(EDGE, 57, chart.subtitle, colours["quiet"], 12),
    ]
    for number, bar in enumerate(rows):
        y = TOP + number * ROW + BASELINE
        colour, weight = (colours["accent"], "600") if bar.ours else (colours["ink"], "400")
        parts.append(_text(EDGE, y, bar.label, colour, 13, weight))
    for place, panel in enumerate(chart.panels):
        x = EDGE + NAMES + place * (PANEL + GAP)
        parts += _panel(panel, x, low, high, colours)
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel, x: int, low: int, high: int, colours: Mapping[str, str]) -> list[str]:
    room = PANEL - VALUE_ROOM
    bottom = TOP + len(panel.bars) * ROW - (ROW - BAR) + 6
    parts = [_text(x, TOP - 14, panel.title, colours["quiet"], 12, "600")]
    for decade in range(low, high + 1):
        at = x + room * (decade - low) / (high - low)
        parts.append(
            f'<line x1="{at:.1f}" y1="{TOP - 6}" x2="{at:.1f}" y2="{bottom}" '
            f'stroke="{colours["line"]}"/>'
        )
    for number, bar in enumerate(panel.bars):
        y = TOP + number * ROW
        end = 0.0
        if bar.value is not None:
            # A bar that ends where the scale begins would look like a missing one.
            share = (math.log10(max(bar.value, 10**low)) - low) / (high - low)
            end = max(2.0, room * share)
            fill = colours["accent"] if bar.ours else colours["peer"]
            parts.append(
                f'<rect x="{x}" y="{y}" width="{end:.1f}" height="{BAR}" rx="2" fill="{fill}"/>'
            )
        colour = colours["quiet"] if bar.value is None else colours["ink"]
        weight = "600" if bar.ours else "400"
        halo = f' stroke="{colours["paper"]}" stroke-width="4" paint-order="stroke"'
        parts.append(_text(x + end + 6, y + BASELINE, bar.shown, colour, 12, weight, halo))
    return parts


def _decades(chart: Chart) -> tuple[int, int]:
    """Return the powers of ten between which every bar ends."""
    values = [bar.value for panel in chart.panels for bar in panel.bars if bar.value]
    low = math.floor(math.log10(min(values)))
    return low, max(low + 1, math.ceil(math.log10(max(values))))


def _described(chart: Chart) -> str:
    told = [
        f"{panel.title}: " + ", ".join(f"{bar.label} {bar.shown}" for bar in panel.bars)
        for panel in chart.panels
    ]
    return f"{chart.subtitle}. " + ". ".join(told) + "."


def _text(
    x: float, y: float, words: str, colour: str, size: int, weight: str = "400", more: str = ""
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" font-size="{size}" '
        f'font-weight="{weight}"{more}>{escape(words)}</text>'
    )
