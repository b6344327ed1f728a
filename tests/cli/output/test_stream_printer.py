"""An answer on a terminal: words as they come, tools in their places, nothing that is obeyed."""

from dataclasses import dataclass, field

import pytest

from turntree.cli.command import Terminal
from turntree.cli.output.sanitize import HELD_CHARS_MAX, TerminalSanitizer
from turntree.cli.output.stream_printer import StreamPrinter, heard_document
from turntree.core.errors import Hint
from turntree.core.ids import RunId
from turntree.core.message import ToolResult, ToolUse, assistant, user
from turntree.runs.follow import (
    Heard,
    ModelReplied,
    RunNotice,
    RunStarted,
    TextChunk,
    TextDiscarded,
    ToolCallFinished,
    ToolCallStarted,
)

ADD = ToolUse("1", "add", {"a": 2, "b": 3})
NOD = ToolUse("2", "nod", {"n": 1})
RUN = RunId("01a1def7-810f-7760-a61c-adae015734cb")


@dataclass(slots=True)
class Screen:
    """What a terminal was sent."""

    text: str = ""
    terminal: Terminal = field(default_factory=lambda: Terminal(color="never"))

    def show(self, *heard: Heard, shows_query: bool = False) -> str:
        speaker = StreamPrinter(self.terminal, self._write, shows_query=shows_query)
        for one in heard:
            speaker.hear(one)
        return self.text

    def _write(self, text: str) -> None:
        self.text += text


def test_words_are_shown_once_whether_they_came_early_or_not() -> None:
    early = [TextChunk(3, "text", "Good "), TextChunk(3, "text", "morning")]
    whole = ModelReplied(3, assistant("Good morning"), None)
    assert Screen().show(*early, whole) == "Good morning\n"
    assert Screen().show(whole) == "Good morning\n"
    assert Screen().show(early[0], whole) == "Good morning\n"


def test_words_that_were_void_are_said_to_be() -> None:
    shown = Screen().show(
        TextChunk(3, "text", "Good ev"),
        TextDiscarded(3),
        TextChunk(3, "text", "Good "),
        ModelReplied(3, assistant("Good morning"), None),
    )
    assert shown == "Good ev\n(that was cut off; once more)\nGood morning\n"


def test_an_answer_that_differs_from_its_words_is_shown_whole() -> None:
    shown = Screen().show(
        TextChunk(3, "text", "Good ev"), ModelReplied(3, assistant("Hello"), None)
    )
    assert shown.splitlines()[-1] == "Hello"


def test_reasoning_comes_before_words_on_a_line_of_its_own() -> None:
    shown = Screen().show(TextChunk(3, "reasoning", "Hm."), TextChunk(3, "text", "Yes."))
    assert shown == "Hm.\nYes."


def test_a_tool_is_one_line_that_is_finished_when_it_has_answered() -> None:
    ok = ToolResult("1", "ok", 5)
    screen = Screen()
    assert screen.show(ToolCallStarted(ADD)) == "  → add a=2 b=3 …"
    screen = Screen()
    assert (
        screen.show(ToolCallStarted(ADD), ToolCallFinished(ADD, ok, 12))
        == "  → add a=2 b=3 … ok 12 ms\n"
    )


def test_tools_at_once_are_named_again_with_their_results() -> None:
    shown = Screen().show(
        ToolCallStarted(ADD),
        ToolCallStarted(NOD),
        ToolCallFinished(ADD, ToolResult("1", "ok", 5), 1200),
        ToolCallFinished(NOD, ToolResult("2", "error", "no neck"), None),
    )
    assert shown.splitlines() == [
        "  → add a=2 b=3 …",
        "  → nod 1 …",
        "  → add a=2 b=3 ok 1.2 s",
        "  → nod 1 error",
        "    no neck",
    ]


def test_whoever_did_not_type_the_question_is_shown_it() -> None:
    assert Screen().show(RunStarted(RUN, (user("Why?\nReally"),))) == ""
    shown = Screen().show(RunStarted(RUN, (user("Why?\nReally"),)), shows_query=True)
    assert shown == "user> Why?\n  Really\n"


def test_only_ascii_where_only_ascii_may_be_printed() -> None:
    screen = Screen(terminal=Terminal(color="never", wants_ascii=True))
    assert screen.show(ToolCallStarted(ADD)) == "  -> add a=2 b=3 ..."


def test_a_failure_says_why() -> None:
    shown = Screen().show(RunNotice("failed", "provider_denied: no \x1b[31mkey"))
    assert shown == "(failed: provider_denied: no key)\n"


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_escape_sequences_are_taken_out_wherever_they_are_cut(size: int) -> None:
    text = "a\x1b[31mb\x1b]0;owned\x07c\x1b(Bd\x1b[2Je\u202ef\ng"
    cleaner = TerminalSanitizer()
    pieces = [text[n : n + size] for n in range(0, len(text), size)]
    assert "".join(cleaner.feed(piece) for piece in pieces) == "abcdef\ng"


def test_an_escape_sequence_that_never_ends_holds_nothing_up_for_long() -> None:
    cleaner = TerminalSanitizer()
    shown = "".join(cleaner.feed(piece) for piece in ["\x1b]0;", "x" * HELD_CHARS_MAX, "visible"])
    assert shown.endswith("visible")
    assert "\x1b" not in shown


def test_everything_that_is_heard_is_a_document() -> None:
    for heard in (
        RunStarted(RUN, (user("a"),)),
        TextChunk(1, "text", "b"),
        TextDiscarded(1),
        ModelReplied(1, assistant("c"), None),
        ToolCallStarted(ADD),
        ToolCallFinished(ADD, ToolResult("1", "ok", 5), 1),
        RunNotice("parked", "approval"),
    ):
        assert heard_document(heard)["event"]


def test_a_failure_is_followed_by_the_command_of_its_hint() -> None:
    shown = Screen().show(RunNotice("failed", "no_model: none", Hint("model.create")))
    assert "next: turntree model create NAME" in shown
    unknown = Screen().show(RunNotice("failed", "no_model: none", Hint("moon.visit")))
    assert "next:" not in unknown
