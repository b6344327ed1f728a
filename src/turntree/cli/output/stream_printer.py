"""Print a reply on a terminal as it arrives: text as it is, tool calls in one line each.

Text of models and tools may contain escape sequences, cut anywhere: it reaches the terminal only
through ``TerminalSanitizer`` or ``cli.output.text.clean``. A terminal cannot take lines back, so
text that a retry voids is followed by a note. It must never know where a reply comes from.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, assert_never

from turntree.cli.command import Paint, Terminal
from turntree.cli.hints import command_for, hint_line
from turntree.cli.output.parts import brief_of, fold_injected, fold_line
from turntree.cli.output.sanitize import TerminalSanitizer
from turntree.cli.output.text import (
    cells,
    clean,
    cut,
    cut_path,
    digits,
    duration,
    usage_sentence,
    wrap,
    wrap_block,
)
from turntree.core.message import Message, ObjectRef, Reasoning, Text, ToolUse, part_to_json
from turntree.core.turn import Turn
from turntree.core.usage import ModelCall, Usage, to_json
from turntree.runs.follow import (
    Heard,
    ModelReplied,
    RunNotice,
    RunStarted,
    TextChunk,
    TextDiscarded,
    ToolCallFinished,
    ToolCallStarted,
    TurnSealed,
    WordKind,
)
from turntree.transcripts.exporters.jsonl import message_document

ARGS_WIDTH_MAX: Final = 60
TOOL_WIDTH_MAX: Final = 32
ENDING_WIDTH: Final = len(" … interrupted 999 ms")
ANSWER_INDENT: Final = "    "
_MS_A_SECOND: Final = 1000

FindCost = Callable[[Turn, ModelCall], Decimal | None]


@dataclass(slots=True)
class StreamPrinter:
    """Prints one reply from the items that a run reports."""

    terminal: Terminal
    write: Callable[[str], None]
    find_cost: FindCost = lambda _turn, _call: None
    shows_query: bool = False
    """Whether to print the query too, for viewers who did not type it."""
    _cleaner: TerminalSanitizer = field(default_factory=TerminalSanitizer)
    _mode: WordKind | None = None
    _shown: dict[tuple[int, WordKind], str] = field(default_factory=dict[tuple[int, WordKind], str])
    _open_call: str | None = None
    """The call whose line the cursor is still in."""
    _at_start: bool = True

    def hear(self, heard: Heard) -> None:
        """Show one item."""
        match heard:
            case RunStarted():
                self._begin(heard)
            case TextChunk():
                self._words(heard)
            case TextDiscarded(seq):
                self._drop(seq)
            case ModelReplied(seq, message):
                self._said(seq, message)
            case ToolCallStarted(use):
                self._call(use)
            case ToolCallFinished():
                self._result(heard)
            case RunNotice():
                self._told(heard)
            case TurnSealed(placed, calls):
                self._end(placed.turn, calls)
            case _:
                assert_never(heard)

    def _begin(self, begun: RunStarted) -> None:
        for said in begun.query if self.shows_query else ():
            injected, text = fold_injected(said, said.text)
            if injected:
                hint = f"turntree show {begun.run} --full"
                width = self.terminal.width - 2
                self._line("  " + fold_line(injected, hint, width, self.terminal), "plain")
            if not text:
                continue
            prompt, width = f"{said.role}> ", self.terminal.width - 2
            first, *rest = wrap_block(text, width, first=self.terminal.width - cells(prompt))
            self._line(prompt + first, "label")
            for line in rest:
                self._line(f"  {line}", "label")

    def _told(self, told: RunNotice) -> None:
        # The outcome already says that a turn was canceled.
        if (told.kind, told.reason) != ("interrupted", "canceled"):
            for line in wrap(f"({told.kind}: {clean(told.reason)})", self.terminal.width):
                self._line(line, "warn")
        if told.hint is not None and (hint := command_for(told.hint)):
            self._line(hint_line(clean(hint)), "dim")

    def _words(self, words: TextChunk) -> None:
        if words.kind == "tool":
            return  # A call is shown complete, once it is recorded.
        key = (words.seq, words.kind)
        self._shown[key] = self._shown.get(key, "") + words.text
        self._say(words.kind, words.text)

    def _say(self, kind: WordKind, text: str) -> None:
        if self._mode != kind:
            self._fresh_line()
            self._mode = kind
        shown = self._cleaner.feed(text)
        if not shown:
            return
        self._put(self._dim(shown) if kind == "reasoning" else shown)

    def _dim(self, text: str) -> str:
        # Line by line: a colour that spans lines would stay behind in a pager or a log.
        return "\n".join(
            self.terminal.paint(line, "dim") if line else "" for line in text.split("\n")
        )

    def _drop(self, seq: int) -> None:
        kinds: tuple[WordKind, ...] = ("text", "reasoning", "tool")
        shown = [self._shown.pop((seq, kind), "") for kind in kinds]
        if any(shown):
            self._drop_line()

    def _said(self, seq: int, message: Message) -> None:
        """Show the missing rest of a reply that is recorded now."""
        for kind, text in _texts(message).items():
            shown = self._shown.pop((seq, kind), "")
            if text == shown:
                continue
            if not text.startswith(shown):
                self._drop_line()
                shown = ""
            # What was not streamed can be laid out.
            is_laid_out = self.shows_query and not shown
            missing = text[len(shown) :]
            width = self.terminal.width
            self._say(kind, "\n".join(wrap_block(missing, width)) if is_laid_out else missing)
        self._fresh_line()

    def _call(self, use: ToolUse | ObjectRef) -> None:
        self._fresh_line()
        self._put(self._named(use) + self.terminal.paint(self.terminal.spell(" …"), "dim"))
        self._open_call = str(use.call_id)

    def _result(self, ended: ToolCallFinished) -> None:
        status = str(ended.result.status)
        paint: Paint = "good" if status == "ok" else "bad"
        took = "" if ended.took_ms is None else f" {_seconds(ended.took_ms)}"
        if self._open_call != str(ended.use.call_id):
            self._fresh_line()
            self._put(self._named(ended.use))
        self._put(f" {self.terminal.paint(status, paint)}{took}")
        self._fresh_line()
        if status != "ok" and (answer := brief_of(ended.result)):
            room = self.terminal.width - cells(ANSWER_INDENT)
            shown = cut(answer, room, ellipsis=self.terminal.spell("…"))
            self._line(f"{ANSWER_INDENT}{shown}", "plain")

    def _named(self, use: ToolUse | ObjectRef) -> str:
        ellipsis = self.terminal.spell("…")
        tool = cut(clean(str(use.tool)), TOOL_WIDTH_MAX, ellipsis=ellipsis)
        room = self.terminal.width - cells(f"  → {tool} ") - ENDING_WIDTH
        args = cut_path(brief_of(use), min(room, ARGS_WIDTH_MAX), ellipsis=ellipsis)
        arrow = self.terminal.paint(self.terminal.spell("  → "), "note")
        name = self.terminal.paint(tool, "strong")
        return f"{arrow}{name} {args}".rstrip()

    def _end(self, turn: Turn, calls: tuple[ModelCall, ...]) -> None:
        if turn.header.outcome != "completed":
            self._line(f"({turn.header.outcome})", "bad")
        for line in wrap(self.terminal.spell(self._sum(turn, calls)), self.terminal.width - 2):
            self._line(f"  {line}", "dim")

    def _sum(self, turn: Turn, calls: tuple[ModelCall, ...]) -> str:
        used = sum((call.usage for call in calls), Usage())
        costs = [self.find_cost(turn, call) for call in calls]
        known = [cost for cost in costs if cost is not None]
        money = f" · ${sum(known, Decimal(0)):.4f}" if known else " · price unknown"
        more = " and an unknown price" if known and len(known) < len(costs) else ""
        model = f"{clean(turn.header.model)} · " if turn.header.model else ""
        took = duration(turn.header.started_at, turn.header.sealed_at)
        tokens = usage_sentence(used)
        return f"{digits(turn.digest)} · {model}{tokens}{money if calls else ''}{more} · {took}"

    def _line(self, text: str, paint: Paint) -> None:
        self._fresh_line()
        self._put(self.terminal.paint(text, paint))
        self._fresh_line()

    def _drop_line(self) -> None:
        self._line(self.terminal.spell("(that was cut off; once more)"), "dim")

    def _fresh_line(self) -> None:
        self._cleaner.end()
        self._mode = None
        self._open_call = None
        if not self._at_start:
            self._put("\n")

    def _put(self, text: str) -> None:
        if text:
            self._at_start = text.endswith("\n")
            self.write(text)


def heard_document(heard: Heard) -> dict[str, Any]:
    """Return an item as a JSON document."""
    match heard:
        case RunStarted(run, query):
            return {"event": "begun", "run": run, "messages": [message_document(m) for m in query]}
        case TextChunk(seq, kind, text, tool):
            return {"event": "words", "seq": seq, "kind": kind, "text": text, "tool": tool}
        case TextDiscarded(seq):
            return {"event": "dropped", "seq": seq}
        case ModelReplied(seq, message, call):
            used = None if call is None else to_json(call)
            said = message_document(message)
            return {"event": "said", "seq": seq, "message": said, "call": used}
        case ToolCallStarted(use):
            return {"event": "tool_begun", "use": part_to_json(use)}
        case ToolCallFinished(use, result, took):
            return {
                "event": "tool_ended",
                "use": part_to_json(use),
                "result": part_to_json(result),
                "took_ms": took,
            }
        case RunNotice(kind, reason, hint):
            shown = {} if hint is None else {"hint": hint.to_json()}
            return {"event": kind, "reason": reason, **shown}
        case TurnSealed(placed):
            return {"event": "ended", **turn_document(placed.turn)}
        case _:
            assert_never(heard)


def turn_document(turn: Turn) -> dict[str, Any]:
    """Return a turn's outcome and last text as a JSON document."""
    said = [one for one in turn.messages if isinstance(one, Message) and one.role == "assistant"]
    return {
        "turn": turn.id,
        "digest": turn.digest,
        "outcome": turn.header.outcome,
        "model": turn.header.model,
        "provider": turn.header.provider,
        "text": said[-1].text if said else "",
    }


def write_documents(write: Callable[[str], None]) -> Callable[[Heard], None]:
    """Return a function that writes every item as JSON, one document per line."""

    def hear(heard: Heard) -> None:
        document: Mapping[str, Any] = heard_document(heard)
        write(json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n")

    return hear


def _texts(message: Message) -> dict[WordKind, str]:
    thought = "".join(part.text for part in message.parts if isinstance(part, Reasoning))
    spoken = "".join(part.text for part in message.parts if isinstance(part, Text))
    found: dict[WordKind, str] = {"reasoning": thought, "text": spoken}
    return {kind: text for kind, text in found.items() if text}


def _seconds(took_ms: int) -> str:
    return f"{took_ms} ms" if took_ms < _MS_A_SECOND else f"{took_ms / _MS_A_SECOND:.1f} s"
