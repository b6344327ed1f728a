"""Write what is known about a branch as Markdown, for the description of a pull request.

Pure. Prompts, paths and names were written by others, and a site renders them for all readers of a
pull request. They appear only as code: there a site knows no HTML, no comments, no mentions of
people and no references to issues. Our own words are all that is outside of code.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Final

from turntree.core.ids import TurnId
from turntree.transfer.branch import BranchFile, BranchReport, BranchTurn

DIGITS: Final = 8
PROMPT_CHARS_MAX: Final = 1_200
PROMPT_LINES_MAX: Final = 16
LINE_CHARS_MAX: Final = 100
NAME_CHARS_MAX: Final = 160
FILES_SHOWN_MAX: Final = 12
FILES_OF_TURN_SHOWN_MAX: Final = 5
FILES_LISTED_MAX: Final = 200
TURNS_SHOWN_MAX: Final = 8
TURNS_OF_FILE_MAX: Final = 4
DOCUMENT_CHARS_MAX: Final = 50_000
"""GitHub refuses descriptions of more than 65,536 characters, and people add their own words."""

_TICKS: Final = re.compile(r"`+")
# Besides control characters, what reorders or hides text: a reader has to see what was asked.
_HIDDEN: Final = re.compile(
    r"[\x00-\x08\x0e-\x1f\x7f-\x9f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ud800-\udfff"
    r"\U000e0000-\U000e007f]"
)


def to_pull_request(report: BranchReport, footer: str) -> str:
    """Return the description of a branch as Markdown; the footer says what addresses are for."""
    names = {turn.id: _short(turn) for turn in report.turns}
    blocks = [
        "## How this branch was written",
        _sentence(report),
        _table(("", ""), _list_facts(report)),
        "### Files",
        *_list_files(report, names),
        "### Turns",
    ]
    size = sum(map(len, blocks))
    shown, folded, left = list[str](), list[str](), 0
    for number, turn in enumerate(report.turns, start=1):
        block = _turn(number, turn)
        size += len(block)
        if size > DOCUMENT_CHARS_MAX:
            left = len(report.turns) - number + 1
            break
        (shown if number <= TURNS_SHOWN_MAX else folded).append(block)
    blocks += shown
    if folded:
        blocks.append(_fold(f"{_counted(len(folded), 'more turn')}", "\n\n".join(folded)))
    if left:
        blocks.append(
            f"{_counted(left, 'more turn')} not shown: the description would be too long."
        )
    blocks.append(f"<sub>{footer}</sub>")
    return "\n\n".join(blocks) + "\n"


def _sentence(report: BranchReport) -> str:
    told = report.lines - report.untold - report.unclear
    return (
        f"{_counted(len(report.turns), 'turn')} wrote {told:,} of the"
        f" {_counted(report.lines, 'line')} that {_counted(report.commits.commits, 'commit')}"
        f" ({_code(report.commits.name)}) added or changed."
    )


def _list_facts(report: BranchReport) -> Iterator[tuple[str, str]]:
    turns = report.turns
    yield "Turns", f"{len(turns):,}"
    yield "Asked by", _tally(Counter(turn.asker for turn in turns))
    yield "Agents", _tally(Counter(turn.agent for turn in turns))
    yield "Models", _tally(Counter(model for turn in turns for model in turn.models or ("",)))
    yield "Tokens", _tokens(report)
    yield "Cost", _cost(report)
    yield "Lines by no recorded turn", _share(report.untold, report.lines)
    if report.unclear:
        yield "Lines by one of several turns", _share(report.unclear, report.lines)
    if report.is_cut:
        yield "Not read", "older snapshots, so that earlier turns may be missing"


def _tokens(report: BranchReport) -> str:
    if not report.calls:
        return "unknown"
    usage = report.usage
    cached = f" ({usage.cached_input:,} of them cached)" if usage.cached_input else ""
    return f"{usage.context:,} in{cached}, {usage.output:,} out"


def _cost(report: BranchReport) -> str:
    unpriced = sum(report.unpriced.values())
    if unpriced == report.calls:
        return "unknown"
    said = f"${report.cost:,.2f} at list prices ({_code(report.prices or '')})"
    if not unpriced:
        return said
    named = ", ".join(_code(model) for model in sorted(report.unpriced))
    return f"{said}, and unknown for {_counted(unpriced, 'call')} of {named}"


def _list_files(report: BranchReport, names: Mapping[TurnId, str]) -> Iterator[str]:
    head = ("File", "Lines", "Written by", "By no recorded turn")
    files = sorted(report.files, key=lambda file: -file.lines)
    rows = [_file_row(file, names) for file in files]
    yield _table(head, rows[:FILES_SHOWN_MAX])
    more = rows[FILES_SHOWN_MAX:FILES_LISTED_MAX]
    if more:
        yield _fold(_counted(len(more), "more file"), _table(head, more))
    if len(rows) > FILES_LISTED_MAX:
        yield f"{_counted(len(rows) - FILES_LISTED_MAX, 'more file')} not listed."


def _file_row(file: BranchFile, names: Mapping[TurnId, str]) -> tuple[str, ...]:
    if not file.is_text:
        return _cell(file.path), "", "not read line by line", ""
    shares = [
        f"`{names[turn]}` {_percent(lines, file.lines)}"
        for turn, lines in list(file.turns.items())[:TURNS_OF_FILE_MAX]
    ]
    if len(file.turns) > TURNS_OF_FILE_MAX:
        shares.append(_counted(len(file.turns) - TURNS_OF_FILE_MAX, "more turn"))
    if file.unclear:
        shares.append(f"one of several turns {_percent(file.unclear, file.lines)}")
    untold = _share(file.untold, file.lines) if file.untold else ""
    return _cell(file.path), f"{file.lines:,}", ", ".join(shares), untold


def _turn(number: int, turn: BranchTurn) -> str:
    marks = [f"{turn.at[:10]} {turn.at[11:16]} UTC"]
    marks += [f"asked by {_code(turn.asker)}"] if turn.asker else []
    marks += [_code(turn.agent)] if turn.agent else []
    marks += [_code(model) for model in turn.models]
    marks.append(_counted(turn.lines, "line"))
    if turn.calls:
        cost = "cost unknown" if turn.cost is None else f"${turn.cost:,.2f}"
        marks += [f"{_counted(turn.usage.total, 'token')}", cost]
    blocks = [f"#### {number}. `{_short(turn)}`", " · ".join(marks), _quote(turn.prompt)]
    files = [
        f"- {_code(path)} ({_counted(lines, 'line')})"
        for path, lines in sorted(turn.files.items(), key=lambda pair: -pair[1])
    ]
    blocks.append("\n".join(files[:FILES_OF_TURN_SHOWN_MAX]))
    more = files[FILES_OF_TURN_SHOWN_MAX:FILES_LISTED_MAX]
    if more:
        blocks.append(_fold(_counted(len(more), "more file"), "\n".join(more)))
    blocks.append(f"Address: `{turn.digest}`")
    return "\n\n".join(blocks)


def _quote(prompt: str) -> str:
    """Return the start of a prompt as a block of code that nothing in it can end."""
    lines = [
        piece
        for line in _plain(prompt[:PROMPT_CHARS_MAX]).splitlines()
        for piece in wrap(line, LINE_CHARS_MAX, replace_whitespace=False, drop_whitespace=False)
        or [""]
    ]
    is_cut = len(prompt) > PROMPT_CHARS_MAX or len(lines) > PROMPT_LINES_MAX
    lines = [line.rstrip() for line in lines[:PROMPT_LINES_MAX]]
    if is_cut:
        lines.append("…")
    text = "\n".join(lines).strip("\n") or "(no words)"
    fence = "`" * max(3, _longest_ticks(text) + 1)
    return f"{fence}text\n{text}\n{fence}"


def _code(text: str) -> str:
    """Return a name on one line, as code that nothing in it can end."""
    words = " ".join(_plain(text).split())
    if len(words) > NAME_CHARS_MAX:
        words = f"{words[: NAME_CHARS_MAX - 1]}…"
    ticks = "`" * (_longest_ticks(words) + 1)
    gap = " " if words.startswith("`") or words.endswith("`") else ""
    return f"{ticks}{gap}{words or '?'}{gap}{ticks}"


def _cell(text: str) -> str:
    """Return a name for a table, in which a bar would begin a new cell even inside of code."""
    return _code(text.replace("|", "¦"))


def _plain(text: str) -> str:
    return _HIDDEN.sub("�", text)


def _longest_ticks(text: str) -> int:
    return max((len(run) for run in _TICKS.findall(text)), default=0)


def _table(head: Sequence[str], rows: Iterator[tuple[str, ...]] | Sequence[tuple[str, ...]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _tally(counts: Counter[str]) -> str:
    named = [
        f"{_cell(name) if name else 'unknown'} ({_counted(times, 'turn')})"
        for name, times in counts.most_common()
    ]
    return ", ".join(named[:TURNS_SHOWN_MAX]) + (", …" if len(named) > TURNS_SHOWN_MAX else "")


def _fold(summary: str, inside: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{inside}\n\n</details>"


def _share(part: int, whole: int) -> str:
    return f"{part:,} ({_percent(part, whole)})"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "0 %"


def _short(turn: BranchTurn) -> str:
    return turn.digest.removeprefix("sha256:")[:DIGITS]


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
