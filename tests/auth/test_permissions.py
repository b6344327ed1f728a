"""Rights: deny wins, nothing is allowed by silence, and together is never more than alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turntree.auth.permissions import (
    EVERYTHING,
    KINDS,
    NOTHING,
    PATTERNS_MAX,
    Pattern,
    Permissions,
    Right,
    actions,
    credentials,
    holds,
    pattern,
    right,
    tools,
)
from turntree.core.errors import InvalidOperation
from turntree.testing.auth_strategies import patterns, rights, single_rights

READ, WRITE = right("tool", "fs.read"), right("tool", "fs.write")


def test_permission_that_nothing_allows_is_denied_with_reason() -> None:
    decision = NOTHING.decide(READ)
    assert (decision.allowed, decision.reason) == (False, "nothing allows tool:fs.read")


def test_deny_wins_over_every_allow() -> None:
    own = Permissions(tools("fs.*", "fs.write"), tools("fs.write"))
    assert own.decide(READ).reason == "tool:fs.* is allowed"
    assert own.decide(WRITE).reason == "tool:fs.write is denied"
    assert own.decide(WRITE).pattern == "tool:fs.write"


def test_a_tool_is_no_credential() -> None:
    own = Permissions(tools("*"))
    assert own.permits(right("tool", "GITHUB_TOKEN"))
    assert not own.permits(right("credential", "GITHUB_TOKEN"))
    assert EVERYTHING.permits(right("credential", "GITHUB_TOKEN"))


def test_a_name_is_no_beginning() -> None:
    named = Permissions((pattern("tool", "fs"),))
    assert named.permits(right("tool", "fs"))
    assert not named.permits(right("tool", "fs.read"))


@pytest.mark.parametrize("text", ["", "a*b", "**", "a b", "a\n", "x" * 201, "\0"])
def test_a_pattern_that_says_more_than_a_beginning_is_refused(text: str) -> None:
    with pytest.raises(InvalidOperation):
        pattern("tool", text)


def test_too_many_patterns_are_refused() -> None:
    with pytest.raises(InvalidOperation, match="at most"):
        Permissions(tools(*(f"t{n}" for n in range(PATTERNS_MAX + 1))))


@given(patterns(), patterns(), single_rights())
def test_two_patterns_hold_one_another_or_share_nothing(
    one: Pattern, other: Pattern, wanted: Right
) -> None:
    if holds(one, wanted) and holds(other, wanted):
        assert holds(one, other) or holds(other, one)
    if holds(one, other) and holds(other, wanted):
        assert holds(one, wanted)


@given(rights(), rights(), single_rights())
def test_what_two_permit_is_what_each_permits(
    one: Permissions, other: Permissions, wanted: Right
) -> None:
    both = one.intersect(other)
    assert both.permits(wanted) == (one.permits(wanted) and other.permits(wanted))
    assert both.within(one)
    assert both.within(other)


@given(rights(), rights(), rights())
def test_rights_are_ordered(one: Permissions, other: Permissions, third: Permissions) -> None:
    assert one.within(one)
    assert NOTHING.within(one)
    assert one.within(EVERYTHING)
    if one.within(other) and other.within(third):
        assert one.within(third)


@given(rights(), rights())
def test_beyond_names_something_that_only_one_permits(one: Permissions, other: Permissions) -> None:
    beyond = one.find_beyond(other)
    everything = [right(kind, name) for kind in KINDS for name in ALL_NAMES]
    more = [each for each in everything if one.permits(each) and not other.permits(each)]
    assert (beyond is None) == (more == [])


@given(rights(), st.lists(patterns(), max_size=3), st.lists(patterns(), max_size=3))
def test_narrowing_never_adds(own: Permissions, allow: list[Pattern], deny: list[Pattern]) -> None:
    narrowed = own.narrow(allow=allow, deny=deny)
    assert narrowed.within(own)
    assert narrowed.within(Permissions(tuple(allow)))
    assert own.narrow() == own


@given(rights())
def test_rights_read_back(own: Permissions) -> None:
    assert Permissions.from_json(own.to_json()) == own


def test_rights_are_written_for_people() -> None:
    own = Permissions((*tools("git", "fs.*", "fs.read"), *credentials("KEY"), *actions("fork")),
                 tools("fs.rm"))  # fmt: skip
    assert own.to_json() == {
        "tools": {"allow": ["fs.*", "git"], "deny": ["fs.rm"]},
        "credentials": {"allow": ["KEY"]},
        "actions": {"allow": ["fork"]},
    }
    assert Permissions.from_json({"credentials": ["KEY"]}) == Permissions(credentials("KEY"))


@pytest.mark.parametrize(
    "document",
    [{"tool": ["a"]}, {"tools": "a"}, {"tools": [1]}, {"tools": {"allowed": []}}, {"tools": 3}],
)
def test_a_document_that_could_be_misread_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(InvalidOperation):
        Permissions.from_json(document)


def spelt(length: int) -> list[str]:
    if length == 0:
        return [""]
    return [word + sign for word in spelt(length - 1) for sign in "abc"]


ALL_NAMES = [name for length in range(1, 5) for name in spelt(length)]
