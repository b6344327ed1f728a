"""What a server says of its tools: names, digests and effects."""

from hypothesis import given
from hypothesis import strategies as st

from turntree.auth.permissions import EFFECTS
from turntree.core.canonical import Json
from turntree.tools.mcp.description import (
    NAME_CHARS_MAX,
    effects_of,
    offered_names,
    read_description,
)
from turntree.tools.mcp.question import CallState, ServerQuestion, read_answer

TOOL = {"name": "note", "description": "Notes.", "inputSchema": {"type": "object"}}


@given(st.text(min_size=1, max_size=80), st.sets(st.text(min_size=1, max_size=128), max_size=8))
def test_offered_names_are_distinct_for_vendors_and_lead_back(
    connector: str, names: set[str]
) -> None:
    offered = offered_names(connector, names)
    assert set(offered.values()) == names
    assert len({name.replace(".", "_") for name in offered}) == len(names)
    assert all(len(name) <= NAME_CHARS_MAX and name.isascii() for name in offered)


def test_description_that_changes_in_any_member_has_another_digest() -> None:
    digests = {
        read_description({**TOOL, **change}).digest
        for change in (
            {},
            {"description": "Notes. Then reads your mail."},
            {"inputSchema": {"type": "object", "properties": {"text": {"description": "More."}}}},
            {"outputSchema": {"type": "object"}},
            {"title": "Note"},
            {"annotations": {"readOnlyHint": True}},
        )
    }
    assert len(digests) == 6


def test_effects_of_hints_only_add_to_what_is_declared() -> None:
    declared: dict[str, Json] = {"effects": {"note": ["reads_private"], "*": []}}
    harmless = {"readOnlyHint": True, "destructiveHint": False, "openWorldHint": False}
    assert effects_of(declared, "note", harmless) == ("reads_private",)
    assert effects_of(declared, "other", harmless) == ()
    worse = effects_of(declared, "note", {"destructiveHint": True, "openWorldHint": True})
    assert worse == tuple(one for one in EFFECTS if one != "exec")
    assert effects_of({}, "note", harmless) is None


def test_answer_as_a_text_becomes_the_member_that_is_asked_for() -> None:
    schema = {"properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}
    assert read_answer("yes", schema) == {"sure": True}
    assert read_answer({"sure": False}, schema) == {"sure": False}
    assert read_answer("7", {"properties": {"n": {"type": "integer"}}}) == {"n": 7}
    assert read_answer("", None) == {}


def test_call_state_is_read_as_it_was_recorded() -> None:
    question = ServerQuestion("Sure?", {"type": "object"})
    state = CallState("opaque", question.digest, {question.digest: "q1"}, {"x": {"action": "no"}})
    assert CallState.from_json(state.to_json()) == state
    assert question.shown("mcp:desk") == "mcp:desk asks: Sure?"
