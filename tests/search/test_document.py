"""What of a turn can be found: bounded, and what people remember first."""

from dataclasses import replace

from hypothesis import given

from turntree.core.canonical import Json, canonical, digest_bytes
from turntree.core.ids import Timestamp, TurnId
from turntree.core.message import (
    Message,
    ObjectRef,
    Text,
    ToolResult,
    ToolStatus,
    ToolUse,
    assistant,
    lift,
    tool,
    user,
)
from turntree.core.message_context import TouchedFile
from turntree.core.principal import Principal
from turntree.core.turn import Header, SealedTurn, Turn, seal
from turntree.search.document import (
    LEXEMES_MAX,
    MARKS_MAX,
    MEANING_CHARS_MAX,
    document_of,
    meaning_of,
    passages_of,
)
from turntree.testing.strategies import turns

AT = Timestamp("2026-11-15T09:30:00.000Z")
MANY = " ".join(f"word{n:04}x" for n in range(1000))


def turn_of(*said: Message) -> Turn:
    header = Header(TurnId("01a0c3a8-2001-7000-8000-000000000001"), None, Principal("human", "Ana"),
                    AT, AT)  # fmt: skip
    return seal(header, said[:1], said[1:]).turn


def call(output: Json, *, status: ToolStatus = "ok") -> tuple[Message, Message]:
    asked = assistant(
        ToolUse("c", "fs.Read", {"path": "src/resolver.py", "deep": [{"n": "inner"}]})
    )
    answered = tool(ToolResult("c", status, output))
    return asked, answered


def test_search_document_has_query_reply_tools_and_files() -> None:
    files: dict[str, Json] = {"files": [TouchedFile("read", "docs/touched.md").to_json()]}
    asked = replace(user("why redirects"), context=files)
    kept = set(document_of(turn_of(asked, *call("printed text"), assistant("because"))).lexemes)
    assert {"redirect", "touch", "read", "resolver", "inner", "print", "text"} <= kept


def test_names_that_operators_ask_for_are_kept_whole() -> None:
    document = document_of(turn_of(user("go"), *call("no", status="error"), assistant("done")))
    assert document.facets == ("by=ana", "failed=", "tool=fs.read")


def test_no_kind_of_text_crowds_out_the_others() -> None:
    turn = turn_of(user(MANY), *call(MANY), assistant("Therefore zebras " + MANY))
    lexemes = document_of(turn).lexemes
    assert len(lexemes) == LEXEMES_MAX
    assert {"resolver", "zebra", "word0000x"} <= set(lexemes)


def test_embedding_text_includes_end_of_long_reply() -> None:
    texts = [p.text for p in passages_of(turn_of(user("go"), assistant(MANY + " finally")), {})]
    assert "word0000x" in texts[-1]
    assert texts[-1].endswith("finally")


def test_search_document_omits_system_prompts() -> None:
    rules = Message("system", (Text("always be polite"),))
    assert "polit" not in document_of(turn_of(rules, assistant("hello"))).lexemes


def test_a_part_that_was_too_large_is_found_by_its_beginning() -> None:
    large = Text("Zebras\nrun " + "x " * 10_000)
    part, data = lift(large)
    assert isinstance(part, ObjectRef)
    assert data == canonical({"kind": "text", "text": large.text})
    turn = turn_of(Message("user", (part,), "human"), assistant("yes"))
    assert {"zebra", "run"} <= set(document_of(turn, {digest_bytes(data): data[:8000]}).lexemes)
    assert "zebra" not in document_of(turn).lexemes
    (passage, _) = passages_of(turn, {digest_bytes(data): data[:8000]})
    assert passage.text.startswith("Zebras run x")


def test_embedding_text_of_turn_is_bounded() -> None:
    said = meaning_of(turn_of(user("short question"), assistant(MANY + " finally")))
    assert said.startswith("short question")
    assert said.endswith("finally")
    assert len(said) <= MEANING_CHARS_MAX + 2


@given(turns())
def test_every_turn_has_a_document_and_always_the_same(sealed: SealedTurn) -> None:
    turn = sealed.turn
    document = document_of(turn)
    assert len(document.lexemes) <= LEXEMES_MAX
    assert list(document.lexemes) == sorted(set(document.lexemes))
    assert len(document.marks) <= MARKS_MAX
    assert not {*document.marks} & {*document.lexemes, *document.facets}
    assert "" not in document.lexemes
    assert document == document_of(turn)
    assert len(meaning_of(turn)) <= MEANING_CHARS_MAX + 2
