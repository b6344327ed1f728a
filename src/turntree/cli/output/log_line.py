"""Print one turn on one line: digest, labels, title, author, model, tokens, age.

Pure, like ``cli.output.text``. The columns are planned once for all lines, so that they align.
"""

from collections.abc import Sequence
from typing import Final

from turntree.cli.command import Paint, Terminal
from turntree.cli.output.annotations import Annotations
from turntree.cli.output.text import (
    Span,
    age,
    asker,
    cells,
    clean,
    cut,
    digest_spans,
    lay,
    pad,
    title,
    tokens,
    tool_of,
    who,
)
from turntree.core.thread import ThreadTurn
from turntree.core.turn import Turn
from turntree.core.usage import Usage
from turntree.core.value import value

GAP: Final = 2
LEFT_MIN: Final = 40
LEFT_WITH_MODEL_MIN: Final = 54
LINE_MAX: Final = 140
WIDE: Final = 100
LABEL_MAX: Final = 28
WHO_MAX: Final = 12
MODEL_MAX: Final = 20
TOKENS_WIDTH: Final = 5
AGE_WIDTH: Final = 4
REASON_MARGIN: Final = 9


@value
class LogColumns:
    """The width of each column; 0 leaves it out."""

    left: int
    who: int
    tool: int
    model: int
    tokens: int
    age: int


def plan_columns(
    turns: Sequence[ThreadTurn], legend: Annotations, terminal: Terminal, *, short: bool = False
) -> LogColumns:
    """Return columns that fit the terminal; the narrower it is, the fewer."""
    width = min(terminal.width, LINE_MAX)
    if short:
        return LogColumns(width, 0, 0, 0, 0, 0)
    headers = [placed.turn.header for placed in turns]
    person = min(WHO_MAX, max(cells(_person(one.turn, legend)) for one in turns))
    tools = [tool_of(header.by) for header in headers]
    if width < WIDE:
        # Titles need the room: "Claude" for Claude Code.
        tools = [name.partition(" ")[0] for name in tools]
    tool = min(WHO_MAX, max(map(cells, tools)))
    model = min(MODEL_MAX, max(cells(clean(header.model or "")) for header in headers))
    used = TOKENS_WIDTH if legend.used else 0
    columns = [person, tool, model, used, AGE_WIDTH]
    # Without room the model goes first, then the tool, the author and the tokens. The age stays.
    limits = ((2, LEFT_WITH_MODEL_MIN), (1, LEFT_MIN), (0, LEFT_MIN), (3, LEFT_MIN))
    for column, least in limits:
        if width - sum(size + GAP for size in columns if size) < least:
            columns[column] = 0
    left = width - sum(size + GAP for size in columns if size)
    return LogColumns(left, *columns)


def draw_line(
    gutter: str, placed: ThreadTurn, legend: Annotations, columns: LogColumns, terminal: Terminal
) -> str:
    """Return the line of a turn; without a gutter it begins with the digest."""
    turn = placed.turn
    spans = [*_gutter_spans(gutter, turn), *digest_spans(turn.digest, legend.unique[turn.digest])]
    spans += [Span(" "), *label_spans(placed, legend, terminal.spell("…"))]
    spans.append(Span(_marked(turn), _title_paint(turn)))
    left = lay(spans, columns.left, terminal)
    used = tokens(legend.used.get(turn.id, Usage()).total)
    header = turn.header
    model, tool = clean(header.model or ""), tool_of(header.by)
    tool = tool if cells(tool) <= columns.tool else tool.partition(" ")[0]
    person = _person(turn, legend)
    ellipsis = terminal.spell("…")
    right = [
        (columns.who, pad(cut(person, columns.who, ellipsis=ellipsis), columns.who)),
        (columns.tool, pad(cut(tool, columns.tool, ellipsis=ellipsis), columns.tool)),
        (columns.model, pad(cut(model, columns.model, ellipsis=ellipsis), columns.model)),
        (columns.tokens, used.rjust(columns.tokens)),
        (columns.age, age(header.sealed_at, legend.now).rjust(columns.age)),
    ]  # fmt: skip
    shown = "".join(" " * GAP + text for size, text in right if size)
    return left + terminal.paint(shown, "dim") if shown else left.rstrip()


def _person(turn: Turn, legend: Annotations) -> str:
    """Return who acted: of an imported turn the person, whose tool has a column of its own."""
    by = turn.header.by
    return asker(turn, legend.askers) if tool_of(by) else who(by)


def draw_reason(turn: Turn, legend: Annotations, terminal: Terminal) -> str | None:
    """Return the line below a turn that says why it failed, if that was recorded."""
    reason = legend.reasons.get(turn.id)
    if reason is None:
        return None
    width = min(terminal.width, LINE_MAX) - REASON_MARGIN
    shown = cut(clean(reason), width, ellipsis=terminal.spell("…"))
    return " " * REASON_MARGIN + terminal.paint(shown, "dim")


def draw_note(gutter: str, text: str, terminal: Terminal) -> str:
    """Return a line that belongs to no turn."""
    line = f"{gutter}  {text}".rstrip() if gutter else text
    return terminal.paint(terminal.spell(line), "dim")


def label_spans(placed: ThreadTurn, legend: Annotations, ellipsis: str) -> list[Span]:
    """Return the labels of sessions with this head, and the turn's tags, in brackets."""
    turn = placed.turn.id
    current = legend.current
    is_current = current is not None and current.head == turn
    names = [
        name for name in legend.labels.get(turn, []) if not (current and name == current.label)
    ]
    spans: list[Span] = []
    if current is not None and is_current:
        shown = short_label(clean(current.label), ellipsis)
        spans += [Span("HEAD -> ", "head"), Span(shown, "label")]
    for name in names:
        spans += [Span(", ")] if spans else []
        spans.append(Span(short_label(clean(name), ellipsis), "label"))
    for tag in legend.tags.get(turn, []):
        spans += [Span(", ")] if spans else []
        spans.append(Span(f"#{clean(tag)}", "warn"))
    return [Span("("), *spans, Span(") ")] if spans else []


def short_label(label: str, ellipsis: str) -> str:
    """Return a label, with its middle parts shortened if it is long, to leave room for the title.

    An imported session's label names its tool, the folder it worked in and its own id there; the
    first and the last are the most useful.
    """
    first, *middle, last = label.split("/") if "/" in label else ("", label)
    if cells(label) <= LABEL_MAX or not middle:
        return label
    return f"{first}/{ellipsis}/{last}"


def _gutter_spans(gutter: str, turn: Turn) -> list[Span]:
    if not gutter:
        return []
    return [Span(gutter[:-1], "dim"), Span(gutter[-1], _sign_paint(turn)), Span("  ")]


def _sign_paint(turn: Turn) -> Paint:
    if turn.header.outcome != "completed":
        return "bad"
    return "note" if turn.header.kind == "compaction" else "head"


def _title_paint(turn: Turn) -> Paint:
    if turn.header.outcome != "completed":
        return "bad"
    return "note" if turn.header.kind == "compaction" else "plain"


def _marked(turn: Turn) -> str:
    """Return the title of a turn, with its outcome if it did not end well."""
    shown, outcome = title(turn), turn.header.outcome
    if outcome == "completed" or shown.startswith(f"({outcome}"):
        return shown
    return f"({outcome}) {shown}"
