"""Messages: what they may hold, and the bytes that stand for them."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import given

from turntree.core.canonical import canonical, digest_bytes
from turntree.core.errors import InvalidOperation
from turntree.core.ids import Digest
from turntree.core.message import (
    PART_INLINE_MAX_BYTES,
    ErasedMessage,
    Media,
    Message,
    ObjectRef,
    OpaquePart,
    Part,
    Reasoning,
    Text,
    ToolResult,
    ToolUse,
    assistant,
    check_message,
    distinct_calls,
    from_json,
    lift,
    line_of,
    part_from_json,
    part_to_json,
    to_json,
    tool,
    user,
)
from turntree.testing import strategies

GOLDEN: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "golden/messages.json").read_text(encoding="utf-8")
)["messages"]
DIGEST = Digest("sha256:" + "0" * 64)


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["name"])
def test_the_bytes_and_digest_of_a_message_never_change(case: dict[str, Any]) -> None:
    line = line_of(from_json(case["document"]))
    assert line.decode() == case["canonical"]
    assert digest_bytes(line) == case["digest"]


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["name"])
def test_independent_implementation_computes_same_digest(case: dict[str, Any]) -> None:
    written = rfc8785.dumps(case["document"])
    assert written.decode() == case["canonical"]
    assert "sha256:" + hashlib.sha256(written).hexdigest() == case["digest"]


def test_vectors_cover_every_kind_of_part() -> None:
    read = [from_json(case["document"]) for case in GOLDEN]
    assert {type(part) for message in read for part in message.parts} == set(Part.__args__)
    assert any(isinstance(message, ErasedMessage) for message in read)
    assert any(isinstance(message, Message) and message.nonce for message in read)


def test_message_bytes_are_canonical() -> None:
    message = Message(
        "assistant",
        (Text("Let me look."), ToolUse("call_1", "list_files", {"path": ".", "depth": 2})),
    )
    assert line_of(message) == (
        b'{"parts":[{"kind":"text","text":"Let me look."},{"args":{"depth":2,"path":"."},'
        b'"call_id":"call_1","kind":"tool_use","tool":"list_files"}],"role":"assistant"}'
    )


@given(strategies.messages())
def test_a_message_reads_back(message: Message) -> None:
    assert from_json(json.loads(line_of(message))) == message
    assert b"\n" not in line_of(message)


@given(strategies.words())
def test_a_part_reads_back(part: Part) -> None:
    assert part_from_json(json.loads(canonical(part_to_json(part)))) == part


@given(strategies.json_objects(), strategies.texts(min_size=1))
def test_an_unknown_part_comes_back_as_the_document_it_was(
    document: dict[str, Any], kind: str
) -> None:
    written = {**document, "kind": f"acme.{kind}"}
    assert part_to_json(part_from_json(written)) == written


def test_nonce_changes_message_digest() -> None:
    plain, salted = user("555"), Message("user", (Text("555"),), "human", nonce="k3v9")
    assert line_of(plain) != line_of(salted)


def test_message_text_contains_only_text_parts() -> None:
    message = assistant(Reasoning("hm"), "a", ToolUse("1", "t", None), "b")
    assert message.text == "ab"
    assert [use.call_id for use in message.tool_uses] == ["1"]
    assert tool(ToolResult("1", "ok", 2)).tool_results == (ToolResult("1", "ok", 2),)
    assert (ErasedMessage(DIGEST).text, ErasedMessage(DIGEST).parts) == ("", ())


@given(strategies.messages())
def test_strategies_draw_valid_messages(message: Message) -> None:
    check_message(message)


REFUSED: list[tuple[str, Any, str]] = [
    ("a role nobody has", Message("robot", ()), "is not a role"),  # type: ignore[arg-type]
    ("a source nobody knows", Message("user", (), "moon"), "is not a source"),  # type: ignore[arg-type]
    ("an assistant with a source", Message("assistant", (), "human"), "only a message that was"),
    ("a call by a user", Message("user", (ToolUse("1", "t", {}),)), "only an assistant asks"),
    ("a lifted call by a tool", Message("tool", (ObjectRef("tool_use", DIGEST, 1),)), "not tool"),
    ("a result by a user", Message("user", (ToolResult("1", "ok", 1),)), "of role tool"),
    ("a result by an assistant", assistant(ToolResult("1", "ok", 1)), "of role tool"),
    ("a status nobody knows", tool(ToolResult("1", "done", 1)), "is not a status"),  # type: ignore[arg-type]
    ("an opaque part without a kind", assistant(OpaquePart({"x": 1})), "needs a kind"),
    ("an opaque part with an odd kind", assistant(OpaquePart({"kind": ["x"]})), "needs a kind"),
    (
        "an opaque part posing as a call",
        assistant(OpaquePart({"kind": "tool_use"})),
        "needs a kind",
    ),
    ("an opaque part posing as words", assistant(OpaquePart({"kind": "text"})), "needs a kind"),
]


@pytest.mark.parametrize(("message", "why"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_check_message_refuses_invalid_messages(message: Message, why: str) -> None:
    with pytest.raises(InvalidOperation, match=why):
        check_message(message)


LARGE = "x" * PART_INLINE_MAX_BYTES


@pytest.mark.parametrize(
    ("part", "stands"),
    [
        (Text(LARGE), ("text", None, None, None)),
        (Reasoning(LARGE, "s"), ("reasoning", None, None, None)),
        (Reasoning("", LARGE), ("reasoning", None, None, None)),
        (ToolUse("1", "t", {"a": LARGE}), ("tool_use", "1", "t", None)),
        (ToolResult("1", "error", LARGE), ("tool_result", "1", None, "error")),
        (OpaquePart({"kind": "acme.x", "data": LARGE}), ("acme.x", None, None, None)),
    ],
    ids=lambda case: type(case).__name__,
)
def test_a_large_part_becomes_an_object_that_reads_back(
    part: Part, stands: tuple[str | None, ...]
) -> None:
    lifted, data = lift(part)
    assert isinstance(lifted, ObjectRef)
    assert data is not None
    assert (lifted.of, lifted.call_id, lifted.tool, lifted.status) == stands
    assert (lifted.object, lifted.size) == (digest_bytes(data), len(data))
    assert part_from_json(json.loads(data)) == part


def test_part_of_exactly_the_limit_stays_inline() -> None:
    overhead = len(canonical(part_to_json(Text(""))))
    fits = Text("x" * (PART_INLINE_MAX_BYTES - overhead))
    assert lift(fits) == (fits, None)
    # A sign that is escaped takes six bytes: the limit is on what is stored.
    escaped = Text("\x00" * (PART_INLINE_MAX_BYTES // 6))
    assert lift(escaped)[1] is not None
    assert lift(Text(fits.text + "x"))[1] is not None


@given(strategies.words())
def test_a_small_part_stays_as_it_is(part: Part) -> None:
    assert lift(part) == (part, None)


def test_media_and_lifted_parts_are_never_lifted() -> None:
    media = Media("image", "image/png", url="data:" + LARGE)
    lifted = ObjectRef("text", DIGEST, 10**6)
    assert lift(media) == (media, None)
    assert lift(lifted) == (lifted, None)


def test_absent_members_are_omitted() -> None:
    assert to_json(Message("user", ())) == {"role": "user", "parts": []}
    assert part_to_json(Media("file", "text/plain")) == {"kind": "file", "media_type": "text/plain"}


def test_renumbered_calls_stay_distinct() -> None:
    said = assistant("once more", ToolUse("1", "nod", {}), ToolUse("", "nod", {}))
    first, second = distinct_calls(said, {"1"}, 7).tool_uses
    assert (first.call_id, second.call_id) == ("1-7-1", "call-7-2")


def test_calls_that_differ_are_left_as_they_are() -> None:
    said = assistant(ToolUse("1", "nod", {}), ToolUse("2", "nod", {}))
    assert distinct_calls(said, {"3"}, 7) == said


def test_two_calls_of_one_reply_stay_distinct() -> None:
    said = assistant(ToolUse("1", "nod", {}), ToolUse("1", "nod", {}))
    assert len({use.call_id for use in distinct_calls(said, (), 7).tool_uses}) == 2
