"""What a model is given: forks begin alike, cuts stay, and what belongs together stays so."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turntree.auth.permissions import Permissions
from turntree.auth.persona import Identity, Persona
from turntree.core.canonical import Json, canonical, digest_bytes
from turntree.core.compaction import Compaction
from turntree.core.errors import InvalidOperation
from turntree.core.ids import Digest, TurnId, instant, uuid7
from turntree.core.manifest import Manifest, ManifestEntry
from turntree.core.message import (
    ErasedMessage,
    Message,
    ObjectRef,
    OpaquePart,
    Text,
    ToolResult,
    ToolUse,
    assistant,
    line_of,
    tool,
    user,
)
from turntree.core.principal import Principal
from turntree.core.thread import ThreadTurn
from turntree.core.turn import Header, Outcome, interrupt_calls, read, seal
from turntree.core.turn import erase as erase_line
from turntree.models.context_window import ContextWindow, find_start, view_of
from turntree.models.messages import show_exchange, show_turn
from turntree.models.prompt import PromptPrefix, ToolSpec, assemble, parts_of, plan_prompt
from turntree.testing.strategies import exchanges, messages, texts

START_MS = 1_790_000_000_000
BY = Principal("human", "ana")
LOTS = 10**15
few = settings(max_examples=25)
"""A thread takes long to draw, and most of what can happen happens in a few."""
PARTS = PromptPrefix(("Be kind.",), (ToolSpec("read", "Reads.", {"type": "object"}),))


def turn_at(
    number: int,
    query: Sequence[Message],
    reply: Sequence[Message],
    outcome: Outcome = "completed",
    compaction: Compaction | None = None,
) -> ThreadTurn:
    header = Header(
        id_of(number), None, BY, instant(START_MS), instant(START_MS), outcome,
        kind="normal" if compaction is None else "compaction", compaction=compaction,
    )  # fmt: skip
    return ThreadTurn(
        seal(header, query, reply).turn, number, None if number == 1 else id_of(number - 1)
    )


def id_of(number: int) -> TurnId:
    return TurnId(uuid7(START_MS, number))


def talk(count: int, words: int = 20) -> list[ThreadTurn]:
    return [
        turn_at(n, [user(f"{n}? " + "why " * words)], [assistant(f"{n}!")])
        for n in range(1, count + 1)
    ]


@st.composite
def threads(draw: st.DrawFn) -> list[ThreadTurn]:
    """Draw a thread in which anything happened, compactions and erasures too."""
    thread: list[ThreadTurn] = []
    for number in range(1, draw(st.integers(0, 5)) + 1):
        compaction = None
        if number > 1 and draw(st.integers(0, 4)) == 0:
            kept = draw(st.integers(1, number - 1))
            compaction = Compaction(
                id_of(number - 1), draw(st.sampled_from([None, id_of(kept)])), 1
            )
        query, reply = draw(exchanges())
        outcome: Outcome = draw(st.sampled_from(["completed", "failed", "canceled"]))
        thread.append(turn_at(number, query, reply, outcome, compaction))
    return [erased(one, draw(st.integers(0, 20))) for one in thread]


def erased(placed: ThreadTurn, place: int) -> ThreadTurn:
    turn = placed.turn
    said = [
        ErasedMessage(digest_bytes(line_of(one))) if n == place else one
        for n, one in enumerate(turn.messages)
    ]
    return replace(placed, turn=replace(turn, messages=tuple(said)))


queries = st.lists(messages("user"), min_size=1, max_size=2)
budgets = st.sampled_from([0, 10, 100, 300, 1000, LOTS])


@few
@given(threads(), queries, queries, budgets)
def test_forks_from_one_turn_begin_with_the_same_bytes(
    thread: list[ThreadTurn], left: list[Message], right: list[Message], budget: int
) -> None:
    view = view_of(thread)
    one = assemble(view, PARTS, left, budget_tokens=budget)
    other = assemble(view, PARTS, right, budget_tokens=budget)
    if budget in (0, LOTS):
        assert one.prefix == other.prefix
    # With other budgets a long query may cost the thread another step, and nothing else.
    shown = [(prompt.left_out, prompt.titled_turns, prompt.folded_turns) for prompt in (one, other)]
    assert one.prefix == other.prefix or shown[0] != shown[1]


@few
@given(threads(), exchanges(), exchanges())
def test_the_next_turn_begins_with_all_that_this_one_saw(
    thread: list[ThreadTurn],
    now: tuple[tuple[Message, ...], tuple[Message, ...]],
    then: tuple[tuple[Message, ...], tuple[Message, ...]],
) -> None:
    asked = assemble(view_of(thread), PARTS, *now, budget_tokens=LOTS)
    longer = [*thread, turn_at(len(thread) + 1, *now)]
    after = assemble(view_of(longer), PARTS, then[0], budget_tokens=LOTS)
    assert after.lines[: len(asked.lines)] == asked.lines
    assert after.prefix == b"\n".join(asked.lines)


@few
@given(threads(), exchanges(), budgets)
def test_every_call_is_answered_in_the_next_message_and_every_answer_was_asked_for(
    thread: list[ThreadTurn], own: tuple[tuple[Message, ...], tuple[Message, ...]], budget: int
) -> None:
    prompt = assemble(view_of(thread), PARTS, *own, budget_tokens=budget)
    open_calls: list[str | None] = []
    for said in prompt.messages:
        assert said.parts
        if said.role == "tool":
            assert [part.call_id for part in said.tool_results] == open_calls
            open_calls = []
        assert not open_calls
        open_calls = [use.call_id for use in said.tool_uses]
    assert not open_calls


@few
@given(threads(), queries, budgets)
def test_the_end_of_a_thread_gives_the_prompt_of_all_of_it(
    thread: list[ThreadTurn], query: list[Message], budget: int
) -> None:
    view = view_of(thread)
    whole = assemble(view, PARTS, query, budget_tokens=budget)
    for missing in range(len(view.turns)):
        end = ContextWindow(view.turns[missing:], view.first, view.summary)
        shown = plan_prompt(view, PARTS, query, budget_tokens=budget).thread.shown
        if not shown or shown[0].depth >= end.turns[0].depth + 1:
            assert assemble(end, PARTS, query, budget_tokens=budget) == whole


@given(st.lists(st.integers(1, 400), max_size=40), st.integers(0, 2000))
def test_whole_turns_take_between_a_quarter_of_the_room_and_all_of_it(
    costs: list[int], room: int
) -> None:
    start = find_start(range(1, len(costs) + 1), costs, room)
    cost = sum(costs[start:])
    assert cost <= room
    if start:
        # One more than was left out would not have fitted into a quarter of it.
        assert cost + max(costs) > room // 4


@given(st.lists(st.integers(1, 60), min_size=1, max_size=80), st.integers(60, 600))
def test_the_first_whole_turn_only_ever_moves_forward(costs: list[int], room: int) -> None:
    before = 0
    for length in range(1, len(costs) + 1):
        start = find_start(range(1, length + 1), costs[:length], room)
        assert start >= before
        before = start


def test_the_first_whole_turn_stays_for_many_turns() -> None:
    starts = [find_start(range(1, n + 1), [25] * n, 1000) for n in range(1, 1001)]
    moves = sum(1 for a, b in itertools.pairwise(starts) if a != b)
    # Forty turns fit; a border that slid would have moved 960 times.
    assert moves <= 1000 / 40 * 3


def test_a_query_of_usual_size_moves_no_cut() -> None:
    view = view_of(talk(300))
    short = assemble(view, PARTS, [user("go on")], budget_tokens=4000)
    long = assemble(view, PARTS, [user("go on " * 200)], budget_tokens=4000)
    longest = assemble(view, PARTS, [user("go on " * 1400)], budget_tokens=4000)
    assert short.prefix == long.prefix
    assert short.left_out > 200
    assert longest.left_out > long.left_out
    assert longest.estimated_tokens <= 4000


def test_a_turn_is_whole_or_folded_or_a_title_and_the_rest_is_counted() -> None:
    prompt = assemble(view_of(talk(64)), PARTS, [user("?")], budget_tokens=6000)
    assert (prompt.left_out, prompt.thread_turns) == (0, 64)
    assert not prompt.folded_turns
    prompt = assemble(view_of(talk(300)), PARTS, [user("?")], budget_tokens=6000)
    assert prompt.left_out + prompt.thread_turns == 300
    assert prompt.titled_turns > 8
    assert prompt.folded_turns
    listed, folded = prompt.messages[:2]
    first, head, *titles = listed.text.splitlines()
    assert first == f"[{prompt.left_out} earlier turns are not shown.]"
    assert "address" in head
    assert len(titles) == prompt.titled_turns
    assert titles[0].startswith(f"{prompt.left_out + 1}: {prompt.left_out + 1}? why")
    at = prompt.left_out + prompt.titled_turns + 1
    assert folded.text.startswith(f"{at}? why")
    assert folded.text.endswith(f"[This turn is folded; address {at}]")


def test_the_last_turn_is_shown_however_little_room_there_is() -> None:
    prompt = assemble(view_of(talk(3)), PARTS, [user("why " * 500)], budget_tokens=100)
    assert (prompt.thread_turns, prompt.titled_turns, prompt.left_out) == (1, 1, 2)
    assert "\n3: 3? why" in prompt.messages[0].text


def test_a_compaction_is_read_before_what_it_keeps_and_what_follows() -> None:
    thread = talk(3, words=1)
    thread.append(
        turn_at(4, [], [assistant("in short")], compaction=Compaction(id_of(2), id_of(3), 2))
    )
    thread.append(turn_at(5, [user("5? ")], [assistant("5!")]))
    prompt = assemble(view_of(thread), PARTS, [user("6?")], budget_tokens=LOTS)
    said = [one.text for one in prompt.messages]
    assert said[0].endswith("in short")
    assert [text[:2] for text in said[1:]] == ["3?", "3!", "5?", "5!", "6?"]
    assert (prompt.thread_turns, prompt.left_out) == (2, 0)


def test_a_summary_that_was_too_long_for_a_message_is_still_shown() -> None:
    long = ObjectRef("text", Digest("sha256:" + "0" * 64), 9000)
    thread = [
        turn_at(1, [], [Message("assistant", (long,))], compaction=Compaction(id_of(1), None, 1))
    ]
    (summary,) = assemble(view_of(thread), PromptPrefix(), [], budget_tokens=LOTS).messages
    assert summary.role == "user"
    assert summary.parts[1] == long


@pytest.mark.parametrize("outcome", ["failed", "canceled", "interrupted"])
def test_a_turn_that_did_not_finish_says_so_behind_what_it_did(outcome: Outcome) -> None:
    reply = interrupt_calls([assistant(ToolUse("a", "read", {}))], "crash")
    shown = show_turn(turn_at(1, [user("read it")], reply, outcome).turn)
    assert [said.role for said in shown] == ["user", "assistant", "tool", "user"]
    assert shown[2].parts == (ToolResult("a", "interrupted", "crash"),)
    assert outcome in shown[3].text


def test_an_erased_message_leaves_a_word_and_an_erased_result_an_interrupted_call() -> None:
    exchange = [
        user("secret"),
        assistant(ToolUse("a", "read", {})),
        tool(ToolResult("a", "ok", "secret")),
        assistant("done"),
    ]
    sealed = seal(turn_at(1, exchange[:1], exchange[1:]).turn.header, exchange[:1], exchange[1:])
    body = erase_line(erase_line(sealed.body, 0), 2)
    asked, called, result, done = show_turn(read(body, sealed.turn.digest))
    assert (asked.role, asked.text, done.text) == ("user", "[erased]", "done")
    assert called.tool_uses
    assert result.parts == (ToolResult("a", "interrupted", "[erased]"),)


def test_results_of_a_call_that_was_erased_are_not_shown() -> None:
    turn = turn_at(
        1,
        [user("x")],
        [assistant(ToolUse("a", "t", {})), tool(ToolResult("a", "ok", 1)), assistant("y")],
    )
    shown = show_turn(erased(turn, 1).turn)
    assert [(said.role, said.text) for said in shown] == [
        ("user", "x"),
        ("assistant", "[erased]"),
        ("assistant", "y"),
    ]


def test_results_stand_in_the_order_of_their_calls_however_they_arrived() -> None:
    calls = assistant(ToolUse("a", "t", {}), ToolUse("b", "t", {}))
    one, two = tool(ToolResult("a", "ok", 1)), tool(ToolResult("b", "ok", 2))
    assert show_exchange([user("x")], [calls, one, two]) == show_exchange(
        [user("x")], [calls, two, one]
    )


def test_what_its_author_understands_stays_and_what_belongs_to_a_session_goes() -> None:
    native: dict[str, Json] = {"vendor": {"api": "x", "parts": [{"id": "1"}, {}]}}
    said = Message(
        "assistant",
        (Text(""), OpaquePart({"kind": "vendor.part"})),
        at=instant(0),
        context={"cwd": "/home/ana"},
        meta={**native, "session": "s1"},
        nonce="n",
    )
    asked = replace(user("hi"), at=instant(0), context={"cwd": "/home/ana"}, nonce="n")
    assert show_exchange([asked], [said]) == [
        Message("user", asked.parts),
        Message("assistant", said.parts, meta=native),
    ]


def test_a_manifest_says_what_stands_before_the_thread_in_its_own_order() -> None:
    persona = Persona("atlas", 1, Identity("Atlas", "Be kind."), Permissions())
    tools = [ToolSpec("b", "B.", {}, is_repeatable=True, timeout_s=3.5), ToolSpec("a", "A.", {})]
    objects = {
        digest_bytes(data): data
        for data in [persona.body, b"Be brief.", *(canonical(one.to_json()) for one in tools)]
    }
    kinds = ["persona", "prompt", "tool", "tool"]
    entries = [ManifestEntry(kind, kind, d) for kind, d in zip(kinds, objects, strict=True)]  # type: ignore[arg-type]
    entries.append(ManifestEntry("program", "@(x)", digest_bytes(b"elsewhere")))
    parts = parts_of(Manifest(tuple(entries)), objects)
    assert parts == PromptPrefix(("You are Atlas.\n\nBe kind.", "Be brief."), tuple(tools))
    with pytest.raises(InvalidOperation, match="the persona persona"):
        parts_of(Manifest(tuple(entries)), {})


@given(texts())
def test_a_tool_survives_its_document(text: str) -> None:
    spec = ToolSpec(text, text, {"type": "object", text: [text]}, timeout_s=1.5)
    assert ToolSpec.from_json(spec.to_json()) == spec


def test_the_digest_of_a_prompt_is_pinned() -> None:
    thread = talk(2, words=1)
    prompt = assemble(view_of(thread), PARTS, [user("go on")], budget_tokens=LOTS)
    assert prompt.digest == digest_bytes(b"\n".join(prompt.lines))
    assert prompt.to_json()["digest"] == prompt.digest
    assert (
        prompt.digest == "sha256:e8e3077e595c0ca2c5e74f484340ef16ef53475f6dae4e7b0dd1440006fb4263"
    )


def test_an_empty_thread_is_no_special_case() -> None:
    prompt = assemble(ContextWindow(), PromptPrefix(), [user("hi")], budget_tokens=LOTS)
    assert [said.text for said in prompt.messages] == ["hi"]
    assert (prompt.thread_messages, prompt.left_out) == (0, 0)
