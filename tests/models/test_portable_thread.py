"""What whoever continues a thread is told of it."""

import pytest

from turntree.core.canonical import digest_bytes
from turntree.core.compaction import Compaction
from turntree.core.errors import InvalidOperation
from turntree.core.ids import Timestamp, TurnId
from turntree.core.message import (
    ErasedMessage,
    Media,
    Message,
    ObjectRef,
    OpaquePart,
    Reasoning,
    Text,
    ToolResult,
    ToolUse,
    assistant,
    lift,
    lift_parts,
    tool,
    user,
)
from turntree.core.principal import Principal
from turntree.core.thread import ThreadTurn
from turntree.core.turn import Header, Turn
from turntree.models.messages import ERASED_TEXT, show_turn
from turntree.models.portable_thread import (
    PortableMessage,
    fit,
    flatten,
    hand_over,
    objects_of,
    pieces_of,
    text_of,
    without_system,
)
from turntree.transcripts.exporters.chat_request import to_chat

AT = Timestamp("2026-11-15T09:30:00.000Z")
DIGEST = digest_bytes(b"turn")
LOOK = ToolUse("toolu_1", "Bash", {"command": "ls"})
LISTED = ToolResult("toolu_1", "ok", "a.txt")


def turn(
    query: list[Message | ErasedMessage],
    reply: list[Message | ErasedMessage],
    *,
    id: str = "turn-1",
    provider: str | None = "anthropic",
    compaction: Compaction | None = None,
) -> ThreadTurn:
    header = Header(
        TurnId(id), None, Principal("human", "ana"), AT, AT,
        kind="normal" if compaction is None else "compaction",
        model="a-model", provider=provider, compaction=compaction,
    )  # fmt: skip
    return ThreadTurn(Turn(header, len(query), (*query, *reply), DIGEST), 1, None)


def roles(told: list[PortableMessage]) -> list[str]:
    return [said.role for said in told]


def test_a_call_is_followed_by_its_results() -> None:
    other = ToolUse("toolu_2", "Read", {"path": "b"})
    told = hand_over(
        [
            turn(
                [user("look")],
                [
                    assistant("Both.", LOOK, other),
                    tool(ToolResult("toolu_2", "error", "no b")),
                    tool(LISTED),
                    assistant("One file."),
                ],
            )
        ],
        {},
    )
    assert roles(told) == ["user", "assistant", "tool", "assistant"]
    assert told[2].parts == (LISTED, ToolResult("toolu_2", "error", "no b"))


def test_an_erased_result_leaves_the_call_with_an_answer() -> None:
    told = hand_over([turn([user("look")], [assistant(LOOK), ErasedMessage(DIGEST)])], {})
    assert told[2].parts == (ToolResult("toolu_1", "interrupted", ERASED_TEXT),)


def test_erased_result_reads_the_same_in_prompt_handoff_and_chat() -> None:
    placed = turn(
        [user("look")], [assistant("So.", LOOK), ErasedMessage(DIGEST), assistant("Done.")]
    )
    roles_read = ["user", "assistant", "tool", "assistant"]
    assert roles(hand_over([placed], {})) == roles_read
    assert [said.role for said in show_turn(placed.turn)] == roles_read
    assert [said["role"] for said in to_chat([placed])] == roles_read


def test_an_erased_call_takes_its_result_with_it() -> None:
    told = hand_over([turn([ErasedMessage(DIGEST)], [ErasedMessage(DIGEST), tool(LISTED)])], {})
    assert [(said.role, said.text) for said in told] == [
        ("user", ERASED_TEXT),
        ("assistant", ERASED_TEXT),
    ]


def test_a_compaction_is_told_as_its_summary() -> None:
    details = Compaction(TurnId("old"), None, 1)
    told = hand_over(
        [turn([user("compact this")], [assistant("We looked.")], compaction=details)], {}
    )
    assert roles(told) == ["user"]
    assert told[0].is_summary
    assert "We looked." in told[0].text
    assert "compact this" not in told[0].text


def test_long_summary_of_a_compaction_is_handed_over() -> None:
    objects: list[bytes] = []
    summary = lift_parts(assistant("what was decided " * 1_000), objects)
    compacted = turn([], [summary], compaction=Compaction(TurnId("old"), None, 1))
    (message,) = hand_over([compacted], {digest_bytes(data): data for data in objects})
    assert message.is_summary
    assert message.text.count("what was decided") == 1_000


def test_a_large_part_is_whole_again() -> None:
    large = ToolResult("toolu_1", "ok", "x" * 20_000)
    stands, data = lift(large)
    assert isinstance(stands, ObjectRef)
    assert data is not None
    placed = turn([user("look")], [assistant(LOOK), Message("tool", (stands,))])
    assert objects_of([placed]) == [stands.object]
    assert hand_over([placed], {stands.object: data})[2].parts == (large,)
    with pytest.raises(InvalidOperation, match="bytes are needed"):
        hand_over([placed], {})


def test_a_picture_that_is_an_object_carries_its_data() -> None:
    digest = digest_bytes(b"png")
    picture = Media("image", "image/png", object=digest)
    placed = turn([Message("user", (Text("see"), picture))], [])
    (said,) = hand_over([placed], {digest: b"png"})
    shown = said.parts[1]
    assert isinstance(shown, Media)
    assert shown.url == "data:image/png;base64,cG5n"


def test_what_only_a_provider_understands_stays_behind() -> None:
    secret = OpaquePart({"kind": "vendor.secret", "data": "x"})
    assert roles(hand_over([turn([user("a")], [Message("assistant", (secret,))])], {})) == ["user"]


@pytest.mark.parametrize(
    ("provider", "signature", "kept"),
    [("anthropic", "sig", 1), ("anthropic", None, 0), ("openai", "sig", 0)],
)
def test_reasoning_is_returned_only_to_vendor_that_signed_it(
    provider: str, signature: str | None, kept: int
) -> None:
    said = [assistant(Reasoning("hm", signature), "yes")]
    told = hand_over([turn([user("?")], [*said], provider=provider)], {})
    fitted = fit(told, provider="anthropic", call_prefix="toolu_")
    assert sum(isinstance(part, Reasoning) for part in fitted[1].parts) == kept


def test_calls_get_ids_of_the_vendors_shape_each_its_own() -> None:
    foreign = ToolUse("fs.read:1", "fs", {})
    thread = [
        turn([user("a")], [assistant(LOOK, foreign), tool(LISTED)], id="one"),
        turn([user("b")], [assistant(LOOK), tool(LISTED)], id="two"),
    ]
    fitted = fit(hand_over(thread, {}), provider="anthropic", call_prefix="toolu_")
    calls = [part.call_id for said in fitted for part in said.parts if isinstance(part, ToolUse)]
    answers = [p.call_id for said in fitted for p in said.parts if isinstance(p, ToolResult)]
    assert calls == answers
    assert len(set(calls)) == 3
    assert calls[0] == "toolu_1"
    assert all(id.startswith("toolu_") and id.replace("_", "").isalnum() for id in calls)


def test_flattened_calls_are_words() -> None:
    told = flatten(hand_over([turn([user("a")], [assistant(LOOK), tool(LISTED)])], {}))
    assert roles(told) == ["user", "assistant", "user"]
    assert 'Bash {"command":"ls"}' in told[1].text
    assert "a.txt" in told[2].text


def test_instructions_can_stay_behind() -> None:
    system = Message("system", (Text("Be brief."),))
    told = hand_over([turn([system, user("a")], [])], {})
    assert roles(told) == ["system", "user"]
    assert roles(without_system(told)) == ["user"]


def test_an_answer_is_read_in_every_shape_it_was_recorded_in() -> None:
    picture = {"type": "base64", "media_type": "image/png", "data": "cG5n"}
    assert pieces_of(None) == []
    assert pieces_of("words") == [Text("words")]
    assert pieces_of([{"type": "text", "text": "a"}, {"type": "image", "source": picture}]) == [
        Text("a"),
        Media("image", "image/png", url="data:image/png;base64,cG5n"),
    ]
    assert text_of([{"type": "input_text", "text": "a"}, {"type": "strange", "n": 1}]) == (
        'a\n{"type":"strange","n":1}'
    )
    assert text_of({"exit_code": 1}) == '{"exit_code":1}'
