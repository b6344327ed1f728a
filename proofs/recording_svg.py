"""Draws what was typed on a terminal as an animated SVG, for a light and a dark page.

The file needs nothing else: no script, no font and no other file, so that it plays where a page
shows it as an image. A reader who prefers no motion sees its end.
"""

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.text import Text

COLUMNS, ROWS = 94, 24
CELL_W, LINE_H, SIZE = 8.43, 20, 14
PAD, BAR = 18, 36
KEY_S = 0.028
LOOK_S, LINE_S = 0.9, 0.14
"""How long a command's output stays before the next command is typed: at least, and per line."""
END_S = 5.0
TITLE = "~/shop"
PROMPT = "$ "
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'Liberation Mono', monospace"
ANSI = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
THEMES: Mapping[str, Mapping[str, str]] = {
    "light": {
        "page": "#ffffff", "edge": "#d0d7de", "text": "#1f2328", "dim": "#656d76",
        "green": "#1a7f37", "red": "#b42318", "yellow": "#8a5a00", "blue": "#0550ae",
        "magenta": "#8250df", "cyan": "#0b6e78",
    },
    "dark": {
        "page": "#0d1117", "edge": "#30363d", "text": "#e6edf3", "dim": "#8d96a0",
        "green": "#3fb950", "red": "#ff7b72", "yellow": "#d29922", "blue": "#79c0ff",
        "magenta": "#d2a8ff", "cyan": "#56d4dd",
    },
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shown:
    """A command and the lines it left on the screen, with their colours as escape sequences."""

    command: str
    lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class Step:
    """Lines that appear together; a typed one appears letter by letter."""

    begins: float
    ends: float
    first_row: int
    lines: Sequence[Text]
    is_typed: bool


def draw(session: Sequence[Shown], theme: str) -> str:
    """Return the recording of a session."""
    colours = THEMES[theme]
    steps = list(_plan(session))
    total = steps[-1].ends + END_S
    width, height = round(COLUMNS * CELL_W) + 2 * PAD, ROWS * LINE_H + BAR + PAD
    css = [
        f"text {{ font: {SIZE}px {FONT}; fill: {colours['text']}; white-space: pre; }}",
        ".b { font-weight: 600; } .d { fill: " + colours["dim"] + "; }",
        *(f".{name} {{ fill: {colours[name]}; }}" for name in ("green", "red", "yellow", "blue",
          "magenta", "cyan")),
        *(_appearing(number, step, total) for number, step in enumerate(steps)),
        _scrolling(steps, total),
        "@media (prefers-reduced-motion: reduce) { g { animation: none !important; } }",
        f"#all {{ transform: translateY({-_offset(steps[-1])}px); }}",
    ]  # fmt: skip
    body = [
        f'<g id="s{number}">{"".join(_draw_lines(step, colours))}</g>'
        for number, step in enumerate(steps)
    ]
    dots = "".join(
        f'<circle cx="{PAD + 4 + 18 * n}" cy="{BAR / 2}" r="5" fill="{colours["edge"]}"/>'
        for n in range(3)
    )
    label = html.escape(" ; ".join(one.command for one in session))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{label}">\n<style>\n' + "\n".join(css) + "\n</style>\n"
        f'<rect x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="9" '
        f'fill="{colours["page"]}" stroke="{colours["edge"]}"/>{dots}'
        f'<text x="{width / 2}" y="{BAR / 2 + 5}" text-anchor="middle" class="d">{TITLE}</text>\n'
        f'<svg x="{PAD}" y="{BAR}" width="{width - 2 * PAD}" height="{ROWS * LINE_H}">'
        '<g id="all">\n' + "\n".join(body) + "\n</g></svg>\n</svg>\n"
    )


def _plan(session: Sequence[Shown]) -> Iterator[Step]:
    at, row = 0.4, 0
    for one in session:
        typed = Text.assemble((PROMPT, "green"), (one.command, "bold"))
        ends = at + KEY_S * len(one.command)
        yield Step(at, ends, row, [typed], is_typed=True)
        at, row = ends + 0.3, row + 1
        if one.lines:
            yield Step(at, at, row, [Text.from_ansi(line) for line in one.lines], is_typed=False)
            row += len(one.lines)
        at += LOOK_S + LINE_S * len(one.lines)


def _appearing(number: int, step: Step, total: float) -> str:
    """Return the rules by which a step appears: nothing before, all of it after."""
    begins, ends = 100 * step.begins / total, 100 * step.ends / total
    if not step.is_typed:
        frames = f"0%, {begins:.3f}% {{ opacity: 0 }} {begins + 0.001:.3f}%, 100% {{ opacity: 1 }}"
    else:
        hidden, letters = "clip-path: inset(0 100% 0 0)", len(step.lines[0].plain)
        frames = (
            f"0% {{ {hidden} }} "
            f"{begins:.3f}% {{ {hidden}; animation-timing-function: steps({letters}) }} "
            f"{ends:.3f}%, 100% {{ clip-path: inset(0 0 0 0) }}"
        )
    rule = f"#s{number} {{ animation: k{number} {total:.2f}s infinite; }}"
    return f"@keyframes k{number} {{ {frames} }} {rule}"


def _scrolling(steps: Sequence[Step], total: float) -> str:
    """Return the rules by which the lines move up when the screen is full."""
    moments = [(0.0, 0), *((step.begins, _offset(step)) for step in steps)]
    moments.append((total, moments[-1][1]))
    frames = " ".join(
        f"{100 * at / total:.3f}% {{ transform: translateY({-offset}px) }}"
        for at, offset in moments
    )
    rule = f"#all {{ animation: scroll {total:.2f}s step-end infinite; }}"
    return f"@keyframes scroll {{ {frames} }} {rule}"


def _offset(step: Step) -> int:
    return max(0, step.first_row + len(step.lines) - ROWS) * LINE_H


def _draw_lines(step: Step, colours: Mapping[str, str]) -> Iterator[str]:
    console = Console(width=10 * COLUMNS, color_system="truecolor")
    for number, line in enumerate(step.lines):
        y = (step.first_row + number) * LINE_H + SIZE
        x, runs = 0, list[str]()
        for segment in line.render(console):
            if text := segment.text.rstrip("\n"):
                width = f'textLength="{len(text) * CELL_W:.1f}" lengthAdjust="spacingAndGlyphs"'
                name = _classes(segment.style, colours)
                runs.append(
                    f'<tspan x="{x * CELL_W:.1f}" {width}{name}>'
                    f"{html.escape(text).replace(' ', '&#160;')}</tspan>"
                )
                x += len(text)
        yield f'<text y="{y}">{"".join(runs)}</text>'


def _classes(style: Style | None, colours: Mapping[str, str]) -> str:
    names: list[str] = []
    if style is not None:
        names += ["b"] if style.bold else []
        names += ["d"] if style.dim or _name(style.color) == "black" else []
        names += [name] if (name := _name(style.color)) in colours else []
    return f' class="{" ".join(names)}"' if names else ""


def _name(colour: Color | None) -> str:
    """Return the name of one of a terminal's eight colours, bright or not."""
    if colour is None or colour.number is None:
        return ""
    return ANSI[colour.number % len(ANSI)]
