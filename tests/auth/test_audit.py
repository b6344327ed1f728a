"""The audit: what was granted, used and denied, told from recorded facts alone."""

import pytest
from hypothesis import given

from turntree.auth.audit import (
    DENIED,
    GRANTED,
    USED,
    AuditGrant,
    Fact,
    UnreadableEvent,
    audit,
    concerns,
    granted_data,
    judged_data,
    kind_of,
    read_fact,
    read_turn,
)
from turntree.auth.delegation import DelegationChain
from turntree.auth.permissions import EVERYTHING, Permissions, Right, right, tools
from turntree.core.canonical import Json
from turntree.core.event import Event, record
from turntree.core.ids import Timestamp
from turntree.core.principal import Principal
from turntree.testing.auth_strategies import chains, single_rights

STREAM = "01a0c3a8-2001-7000-8000-000000000001"
ANA, ATLAS = Principal("human", "ana"), Principal("agent", "atlas")
CHAIN = DelegationChain.begin(ANA, EVERYTHING).delegate(
    ATLAS, Permissions(tools("fs.*", "git"), tools("fs.rm"))
)
READ, REMOVE, GIT = (right("tool", name) for name in ("fs.read", "fs.rm", "git"))


def at(minute: int) -> Timestamp:
    return Timestamp(f"2026-11-15T12:{minute:02}:00.000Z")


def told(kind: str, data: dict[str, Json], minute: int = 0) -> Fact:
    fact = Event(STREAM, minute, kind, at(minute), data)
    return read_fact(record(fact).event, "main")


def granted(minute: int = 0, chain: DelegationChain = CHAIN) -> Fact:
    return told(GRANTED, granted_data(chain), minute)


def judged(wanted: Right, minute: int = 1, chain: DelegationChain = CHAIN) -> Fact:
    decision = chain.decide(wanted)
    return told(kind_of(decision), judged_data(chain.principal, decision), minute)


def test_nothing_leaves_nothing_to_look_at() -> None:
    assert audit([]).findings == ()


def test_a_right_that_is_used_as_granted_is_no_finding() -> None:
    report = audit([granted(), judged(READ), judged(GIT, 2), judged(READ, 3)])
    assert report.findings == ()
    assert [(row.right, row.times, row.last_at) for row in report.used] == [
        ("tool:fs.read", 2, at(3)),
        ("tool:git", 1, at(2)),
    ]
    assert {row.who for row in report.granted} == {"agent:atlas for human:ana"}


def test_a_pattern_of_which_one_right_was_used_is_used() -> None:
    report = audit([granted(), judged(READ)])
    assert [row.right for row in report.unused] == ["tool:git"]
    assert [finding.kind for finding in report.findings] == ["unused"]
    assert "granted tool:git and never used it" in report.findings[0].sentence


def test_a_denial_is_told_with_its_reason() -> None:
    report = audit([granted(), judged(READ), judged(GIT), judged(REMOVE), judged(REMOVE)])
    assert [(row.right, row.times) for row in report.denied] == [("tool:fs.rm", 2)]
    (finding,) = report.findings
    assert finding.sentence == (
        "agent:atlas for human:ana was denied tool:fs.rm 2 times: "
        "tool:fs.rm is denied for agent:atlas"
    )


def test_a_use_without_a_grant_is_found() -> None:
    assert kinds([judged(READ)]) == ["ungranted"]
    # A grant that comes afterwards does not help.
    assert "ungranted" in kinds([judged(READ, 0), granted(1)])
    # Nor does somebody else's.
    assert "ungranted" in kinds(
        [granted(), judged(READ, chain=DelegationChain.begin(ANA, EVERYTHING))]
    )


def test_a_grant_beyond_its_chain_is_found() -> None:
    data = granted_data(CHAIN)
    wider = told(GRANTED, {**data, "permissions": EVERYTHING.to_json()})
    assert isinstance(wider, AuditGrant)
    assert wider.is_widened
    assert "widened" in kinds([wider])
    assert "widened" in kinds([told(GRANTED, {**data, "by": ANA.to_json()})])


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (GRANTED, {}),
        (GRANTED, {"by": ANA.to_json(), "links": [], "permissions": {}}),
        (GRANTED, {"by": ANA.to_json(), "links": CHAIN.to_json(), "permissions": {"cookies": []}}),
        (USED, {"by": ANA.to_json()}),
        (DENIED, {"by": "ana", "permission": "tool:x", "reason": ""}),
    ],
)
def test_a_fact_that_cannot_be_read_is_a_finding(kind: str, data: dict[str, Json]) -> None:
    fact = told(kind, data)
    assert isinstance(fact, UnreadableEvent)
    assert kinds([fact]) == ["unreadable"]


def test_a_turn_tells_what_it_pins_and_what_it_used() -> None:
    facts = read_turn("main", at(0), ATLAS, {"tools": ["read"]}, ["read", "My Tool"])
    report = audit(facts)
    assert [row.right for row in report.used] == ["tool:My Tool", "tool:read"]
    assert [finding.kind for finding in report.findings] == ["ungranted"]
    assert kinds(read_turn("main", at(0), ATLAS, {"tools": 3}, [])) == ["unreadable"]


def test_what_came_before_is_left_out_but_its_grants_count() -> None:
    facts = [granted(), judged(READ, 1), judged(REMOVE, 2), judged(GIT, 5)]
    report = audit(facts, since=at(3))
    assert [row.right for row in report.used] == ["tool:git"]
    assert report.denied == ()
    assert [row.right for row in report.unused] == ["tool:fs.*"]


def test_an_agent_answers_for_those_who_act_for_it() -> None:
    worker = CHAIN.delegate(Principal("session", "w1"), EVERYTHING)
    assert concerns(granted(chain=worker), "atlas")
    assert concerns(judged(READ), "atlas")
    assert not concerns(judged(READ), "ana")
    assert not concerns(told(USED, {}), "atlas")


@given(chains(), single_rights())
def test_what_a_chain_decides_is_never_ungranted(chain: DelegationChain, wanted: Right) -> None:
    found = kinds([granted(chain=chain), judged(wanted, chain=chain)])
    assert not {"ungranted", "widened", "unreadable"} & set(found)


def kinds(facts: list[Fact]) -> list[str]:
    return [finding.kind for finding in audit(facts).findings]
