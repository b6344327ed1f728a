"""Turns: the recipe of their digests, what proves them, and what cannot be sealed."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from turntree.core.canonical import digest_bytes
from turntree.core.compaction import Compaction
from turntree.core.errors import InvalidOperation, NotCanonical
from turntree.core.ids import Digest, Timestamp, TurnId
from turntree.core.message import (
    ErasedMessage,
    Message,
    ObjectRef,
    Text,
    ToolResult,
    ToolUse,
    assistant,
    line_of,
    tool,
    user,
)
from turntree.core.principal import Principal
from turntree.core.turn import (
    Header,
    SealedTurn,
    erase,
    interrupt_calls,
    read,
    seal,
    verify,
)
from turntree.testing import strategies

GOLDEN: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "golden/turns.json").read_text(encoding="utf-8")
)["turns"]
ID = TurnId("01a0c3a8-2001-7000-8000-000000000001")
DIGEST = Digest("sha256:" + "0" * 64)
HEADER = Header(
    ID,
    None,
    Principal("human", "ana"),
    Timestamp("2026-09-21T14:13:20.000Z"),
    Timestamp("2026-09-21T14:13:21.000Z"),
)
USE, RESULT = ToolUse("1", "ls", {}), ToolResult("1", "ok", "a.txt")


def body_of(case: dict[str, Any]) -> str:
    return "\n".join([case["canonical_header"], *case["canonical_messages"]])


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["name"])
def test_the_bytes_and_digest_of_a_turn_never_change(case: dict[str, Any]) -> None:
    turn = read(body_of(case), case["digest"])
    query, reply = as_said(turn.query), as_said(turn.reply)
    assert seal(turn.header, query, reply) == SealedTurn(turn, body_of(case))
    assert len(query) == len(case["query"])


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["name"])
def test_independent_implementation_computes_same_digest(case: dict[str, Any]) -> None:
    lines = [rfc8785.dumps(said) for said in [*case["query"], *case["reply"]]]
    digests = [sha256(line) for line in lines]
    proof: dict[str, Any] = {
        "count": len(lines),
        "digest": sha256(rfc8785.dumps(digests)),
        "query": len(case["query"]),
    }
    head = rfc8785.dumps({**case["header"], "messages": proof})
    assert [line.decode() for line in lines] == case["canonical_messages"]
    assert digests == case["message_digests"]
    assert head.decode() == case["canonical_header"]
    assert sha256(head) == case["digest"]


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["name"])
def test_golden_turn_verifies_after_erasure(case: dict[str, Any]) -> None:
    body, parent = body_of(case), case["header"].get("parent")
    assert verify(body, case["digest"], parent) == "whole"
    for place in case.get("erased", []):
        body = erase(body, place)
        assert body.split("\n")[place + 1] == f'{{"erased":"{case["message_digests"][place]}"}}'
        assert verify(body, case["digest"], parent) == "erased"


def test_vectors_cover_every_kind_of_turn() -> None:
    headers = [case["header"] for case in GOLDEN]
    assert {header["outcome"] for header in headers} == {
        "completed", "failed", "canceled", "interrupted"
    }  # fmt: skip
    assert {header["kind"] for header in headers} == {"normal", "compaction"}
    assert {header["agent_role"] for header in headers} == {"manager", "worker", "unified"}
    members = {name for header in headers for name in header}
    assert {"parent", "manifest", "retry_of", "derived_from", "model", "provider"} <= members
    assert any("on_behalf_of" in header["by"] for header in headers)


@given(strategies.headers(), strategies.exchanges())
def test_a_sealed_turn_reads_back(header: Header, exchange: strategies.Exchange) -> None:
    query, reply = exchange
    sealed = seal(header, query, reply)
    turn = read(sealed.body, sealed.turn.digest)
    assert turn == sealed.turn
    assert (turn.header, turn.query, turn.reply) == (header, query, reply)


@given(strategies.turns())
def test_a_sealed_turn_is_whole(sealed: SealedTurn) -> None:
    turn = sealed.turn
    assert verify(sealed.body, turn.digest, turn.header.parent) == "whole"
    assert verify(sealed.body, turn.digest, Digest("sha256:" + "f" * 64)) == "broken"


@given(strategies.turns(), st.data())
def test_one_changed_byte_breaks_a_turn(sealed: SealedTurn, data: st.DataObject) -> None:
    body = bytearray(sealed.body.encode())
    place = data.draw(st.integers(0, len(body) - 1))
    body[place] ^= data.draw(st.integers(1, 255))
    # What is not UTF-8 any more is nothing a ledger could hold; it arrives with marks instead.
    changed = body.decode(errors="replace")
    assert verify(changed, sealed.turn.digest, sealed.turn.header.parent) == "broken"


@given(strategies.turns(), st.data())
def test_verify_missing_doubled_or_swapped_message_is_broken(
    sealed: SealedTurn, data: st.DataObject
) -> None:
    head, *lines = sealed.body.split("\n")
    place = data.draw(st.integers(0, len(lines) - 1))
    lost = [*lines[:place], *lines[place + 1 :]]
    doubled = [*lines[:place], lines[place], *lines[place:]]
    swapped = data.draw(st.permutations(lines))
    for tampered in (lost, doubled, swapped):
        if tampered != lines:
            body = "\n".join([head, *tampered])
            assert verify(body, sealed.turn.digest, sealed.turn.header.parent) == "broken"


@given(strategies.turns(), st.data())
def test_erasing_any_messages_never_breaks_a_turn(sealed: SealedTurn, data: st.DataObject) -> None:
    said = sealed.turn.messages
    places = data.draw(st.sets(st.integers(0, len(said) - 1), min_size=1))
    body = sealed.body
    for place in places:
        body = erase(body, place)
        assert erase(body, place) == body
    assert verify(body, sealed.turn.digest, sealed.turn.header.parent) == "erased"
    left = read(body, sealed.turn.digest).messages
    assert {
        place for place, message in enumerate(left) if isinstance(message, ErasedMessage)
    } == places
    assert all(left[n] == said[n] for n in range(len(said)) if n not in places)


@given(strategies.turns(), st.data())
def test_a_changed_stub_breaks_an_erased_turn(sealed: SealedTurn, data: st.DataObject) -> None:
    head, *lines = erase(sealed.body, 0).split("\n")
    place = data.draw(st.integers(0, len(lines[0]) - 1))
    sign = data.draw(st.characters(exclude_categories=["Cs"]))
    lines[0] = lines[0][:place] + sign + lines[0][place + 1 :]
    expected = "erased" if sign == erase(sealed.body, 0).split("\n")[1][place] else "broken"
    body = "\n".join([head, *lines])
    assert verify(body, sealed.turn.digest, sealed.turn.header.parent) == expected


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_read_valid_digest_of_invalid_turn_is_refused(text: str) -> None:
    own = digest_bytes(text.split("\n", maxsplit=1)[0].encode())
    assert verify(text, own, None) == "broken"


@pytest.mark.parametrize("head", ["5", "[]", "{}", '{"messages":5}', '{"messages":{"query":"1"}}'])
def test_read_header_of_other_shape_is_refused(head: str) -> None:
    assert verify(head, digest_bytes(head.encode()), None) == "broken"


def test_there_is_no_message_to_erase_beyond_the_last() -> None:
    sealed = seal(HEADER, [user("a")], [assistant("b")])
    for place in (-1, 2):
        with pytest.raises(InvalidOperation, match="messages 0 to 1"):
            erase(sealed.body, place)


@given(strategies.turns(), st.data())
def test_one_digest_proves_a_thread_back_to_its_root(
    parent: SealedTurn, data: st.DataObject
) -> None:
    child = data.draw(strategies.turns(parent.turn.digest))
    assert verify(child.body, child.turn.digest, parent.turn.digest) == "whole"
    for other in (None, child.turn.digest):
        assert verify(child.body, child.turn.digest, other) == "broken"


@given(strategies.headers(), strategies.replies(answer_all=False))
def test_an_interruption_makes_any_reply_sealable(
    header: Header, reply: tuple[Message, ...]
) -> None:
    settled = interrupt_calls(reply, "shutdown")
    seal(header, [user("go")], settled)
    assert [said for said in settled if said in reply] == list(reply)
    assert interrupt_calls(settled, "again") == settled
    made = [part.status for said in settled if said not in reply for part in said.tool_results]
    assert set(made) <= {"interrupted"}


@given(strategies.exchanges())
def test_a_finished_reply_needs_no_interruption(exchange: strategies.Exchange) -> None:
    assert interrupt_calls(exchange[1], "shutdown") == exchange[1]


COMPACTION = Compaction(ID, None, 1)
ASK = [user("a")]
REFUSED: list[tuple[str, Header, list[Message], list[Message], str]] = [
    ("no query", HEADER, [], [assistant("b")], "needs at least one query"),
    ("no reply", HEADER, ASK, [], "a completed turn has a reply"),
    ("an assistant in the query", HEADER, [assistant("a")], [assistant("b")], "not to the query"),
    ("a user in the reply", HEADER, ASK, [user("b")], "nothing else"),
    ("a system message in the reply", HEADER, ASK, [Message("system", ())], "nothing else"),
    ("an unanswered call", HEADER, ASK, [assistant(USE)], "without a result"),
    ("a lifted call without an answer", HEADER, ASK,
     [assistant(ObjectRef("tool_use", DIGEST, 9, "1", "ls"))], "without a result"),
    ("a call made twice", HEADER, ASK, [assistant(USE, USE), tool(RESULT)], "made twice"),
    ("a call made again after its result", HEADER, ASK,
     [assistant(USE), tool(RESULT), assistant(USE), tool(RESULT)], "made twice"),
    ("a result without a call", HEADER, ASK, [tool(RESULT), assistant("b")], "which is not open"),
    ("a result before its call", HEADER, ASK, [tool(RESULT), assistant(USE)], "not open"),
    ("two results for a call", HEADER, ASK,
     [assistant(USE), tool(RESULT, RESULT), assistant("b")], "not open"),
    ("a result in the query", HEADER, [tool(RESULT)], [assistant("b")], "cannot be in a query"),
    ("an assistant with a source", HEADER, ASK,
     [Message("assistant", (Text("b"),), "human")], "has a source"),
    ("sealed before it started", replace(HEADER, sealed_at=Timestamp("2026-09-21T14:13:19.000Z")),
     ASK, [assistant("b")], "before it started"),
    ("a compaction without details", replace(HEADER, kind="compaction"),
     ASK, [assistant("b")], "has compaction details"),
    ("details without a compaction", replace(HEADER, compaction=COMPACTION),
     ASK, [assistant("b")], "has compaction details"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("header", "query", "reply", "why"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED]
)
def test_seal_refuses_exchange_that_cannot_continue(
    header: Header, query: list[Message], reply: list[Message], why: str
) -> None:
    with pytest.raises(InvalidOperation, match=why):
        seal(header, query, reply)


@pytest.mark.parametrize("outcome", ["failed", "canceled", "interrupted"])
def test_only_a_completed_turn_needs_a_reply(outcome: Any) -> None:
    assert seal(replace(HEADER, outcome=outcome), ASK, []).turn.reply == ()


def test_compaction_needs_no_query() -> None:
    header = replace(HEADER, kind="compaction", compaction=COMPACTION)
    assert seal(header, [], [assistant("in short")]).turn.query == ()


def test_a_value_without_a_canonical_form_cannot_be_sealed() -> None:
    use = ToolUse("1", "add", {"n": 2**53})
    with pytest.raises(NotCanonical, match=r"parts\[0\]\.args\.n"):
        seal(HEADER, ASK, [assistant(use), tool(RESULT)])


def test_a_title_is_the_first_words() -> None:
    def title(query: str, reply: str) -> str:
        return seal(HEADER, [user(query)], [assistant(reply)]).turn.title

    assert title("  fix\n the   login ", "yes") == "fix the login"
    assert title(" ", "yes") == "yes"
    assert title("", "") == ""


def test_a_message_has_the_same_digest_in_every_turn() -> None:
    first = seal(HEADER, ASK, [assistant("b")])
    second = seal(replace(HEADER, parent=DIGEST), ASK, [assistant("b")])
    assert first.turn.digest != second.turn.digest
    assert first.body.split("\n")[1:] == second.body.split("\n")[1:]
    assert first.body.split("\n")[1].encode() == line_of(ASK[0])


def as_said(messages: tuple[Message | ErasedMessage, ...]) -> list[Message]:
    return [message for message in messages if isinstance(message, Message)]


def sha256(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()
