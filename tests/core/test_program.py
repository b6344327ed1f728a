"""Programs as values: names, references, lifecycles, rights, and the fold of their events."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation
from turntree.core.event import KINDS, Event
from turntree.core.ids import ProgramId, Timestamp
from turntree.core.program import (
    Program,
    ProgramVersion,
    Reference,
    check_name,
    fold,
    list_references,
    list_secrets,
    may,
    name_from,
    name_in,
    rename_references,
    version_of,
)
from turntree.programs.kind import Kind, Option, as_member, put_member
from turntree.programs.lifecycles import LIFECYCLES

AT = Timestamp("2026-11-15T09:30:00.000Z")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


def program(visibility: str = "public") -> Program:
    version, _ = version_of(1, {})
    return Program(
        ProgramId("p"), "human", "p", "human:ana", "available", visibility, version, {}, AT, AT  # type: ignore[arg-type]
    )  # fmt: skip


def test_reference_is_text_with_only_an_address() -> None:
    config: Json = {
        "provider": "@(cf-gateway)",
        "tools": ["@(search)", "say @(hello) to them"],
        "prompt": "ask @(somebody)",
        "deep": {"er": "@(session:1/a)"},
    }
    assert list_references(config) == [
        Reference("deep/er", "session:1/a"),
        Reference("provider", "cf-gateway"),
        Reference("tools/0", "search"),
    ]


@given(JSON)
def test_renaming_by_no_names_changes_nothing(config: Json) -> None:
    assert rename_references(config, {}) == config


def test_rename_references_in_place() -> None:
    renamed = rename_references({"a": ["@(old)", "old"]}, {"old": "new"})
    assert renamed == {"a": ["@(new)", "old"]}


def test_secrets_are_named_once_each() -> None:
    config: Json = {"url": "https://${HOST}/${PATH}", "again": ["${HOST}"], "not": "$HOST ${1}"}
    assert list_secrets(config) == ["HOST", "PATH"]


@pytest.mark.parametrize("name", ["", "-a", "a b", "a(b)", "x" * 201, "é", "0" * 32])
def test_program_name_invalid_in_address_is_refused(name: str) -> None:
    with pytest.raises(InvalidOperation):
        check_name(name)


def test_name_is_derived_from_title() -> None:
    assert name_from("Research: quantum computing!", prefix="task") == (
        "task-research-quantum-computing"
    )
    with pytest.raises(InvalidOperation):
        name_from("…")
    assert name_in("@(a)") == name_in("a") == "a"


def test_a_version_is_proved_by_its_canonical_bytes() -> None:
    one, data = version_of(1, {"b": 1, "a": 2.0})
    assert data == b'{"a":2,"b":1}'
    assert version_of(7, {"a": 2, "b": 1})[0].digest == one.digest


@pytest.mark.parametrize("kind", LIFECYCLES)
def test_a_lifecycle_leads_from_its_first_state_to_every_other(kind: str) -> None:
    lifecycle = LIFECYCLES[kind]
    reached, left = {lifecycle.initial}, [lifecycle.initial]
    while left:
        for target in lifecycle.moves[left.pop()]:
            assert target in lifecycle.moves
            if target not in reached:
                reached.add(target)
                left.append(target)
    assert reached == set(lifecycle.states)


@pytest.mark.parametrize("kind", LIFECYCLES)
def test_lifecycle_refuses_illegal_change_and_lists_legal_ones(kind: str) -> None:
    lifecycle = LIFECYCLES[kind]
    for state in lifecycle.states:
        for target in lifecycle.states:
            if target in lifecycle.moves[state]:
                lifecycle.check(state, target)
                continue
            with pytest.raises(InvalidOperation) as refused:
                lifecycle.check(state, target)
            assert all(lawful in str(refused.value) for lawful in lifecycle.moves[state])


def test_access_levels_include_lower_ones() -> None:
    assert may(program(), "human:ana", "configure")
    assert may(program(), "system:turntree", "configure")
    assert may(program(), "human:bob", "invoke")
    assert not may(program(), "human:bob", "configure")
    assert not may(program("private"), "human:bob", "read")
    assert may(program("private"), "human:bob", "read", ["invoke"])
    assert not may(program("private"), "human:bob", "invoke", ["read"])
    assert may(program("private"), "human:bob", "configure", ["configure"])


def test_set_member_by_path() -> None:
    assert put_member({}, "a/b/c", 1) == {"a": {"b": {"c": 1}}}
    assert put_member({"a": {"b": 1, "c": 2}}, "a/b", None) == {"a": {"c": 2}}
    with pytest.raises(InvalidOperation, match="has no members"):
        put_member({"a": 1}, "a/b", 2)
    option = Option("--tool", "tools", "", "address", many=True)
    assert as_member(option, ["x", "@(y)"]) == ["@(x)", "@(y)"]


def test_an_event_has_the_name_that_its_kind_gives_it() -> None:
    lifecycle = LIFECYCLES["agent"]
    kind = Kind(
        "agent", "", lifecycle, move_events={"idle": "a.done", "error>idle": "a.reset"},
        member_events={"model": "a.switched"},
    )  # fmt: skip
    assert kind.moved("thinking", "idle") == "a.done"
    assert kind.moved("error", "idle") == "a.reset"
    assert kind.moved("idle", "paused") == "agent.state_changed"
    assert kind.configured({"model": 1}, {"model": 2}) == "a.switched"
    assert kind.configured({"x": 1}, {"x": 2}) == "agent.configured"


@pytest.mark.parametrize(
    "kind",
    [
        "provider.created",
        "provider.configured",
        "model.created",
        "model.configured",
        "model.inference_requested",
        "model.inference_completed",
        "session.configured",
        "session.message",
        "session.model_switched",
        "session.completed",
        "agent.created",
        "agent.task_assigned",
        "agent.thinking",
        "agent.executing",
        "agent.completed",
        "agent.checkpoint",
        "agent.reset",
        "task.created",
        "task.assigned",
        "task.started",
        "task.completed",
        "task.failed",
        "information.created",
        "information.validated",
        "information.updated",
        "human.notified",
        "human.approved",
        "human.rejected",
        "node.tagged",
        "node.untagged",
    ],
)
def test_every_event_of_a_program_is_registered(kind: str) -> None:
    assert kind in KINDS


CREATED: dict[str, Json] = {
    "kind": "human", "name": "bln", "owner": "human:ana", "state": "available",
    "visibility": "public", "version": 1, "config": "sha256:1",
}  # fmt: skip


def told(*facts: tuple[str, dict[str, Json]]) -> list[Event]:
    return [Event("s", seq, kind, AT, data) for seq, (kind, data) in enumerate(facts)]


def test_the_fold_of_a_stream_is_the_program() -> None:
    state = fold(
        told(
            ("session.created", {"label": "shares the stream"}),
            ("human.created", CREATED),
            ("human.state_changed", {"from": "available", "to": "busy"}),
            ("human.configured", {"version": 2, "config": "sha256:2", "details": {"a": 1, "b": 2}}),
            ("human.approval_requested", {"details": {"a": None}}),
            ("program.granted", {"to": "human:bob", "access": "invoke"}),
            ("program.granted", {"to": "human:eve", "access": "read"}),
            ("program.revoked", {"to": "human:eve", "access": "read"}),
            ("program.visibility_changed", {"visibility": "private"}),
            ("acme.noted", {"to": "anything"}),
            ("permission.granted", {"config": "not this program's"}),
        )
    )
    assert state is not None
    assert (state.state, state.visibility, state.number) == ("busy", "private", 2)
    assert state.digests == ("sha256:1", "sha256:2")
    assert state.details == {"b": 2}
    assert state.grants == {("human:bob", "invoke")}
    assert state.steps == ((2, "available", "busy"),)


@pytest.mark.parametrize(
    "facts",
    [
        [("human.created", CREATED), ("human.created", CREATED)],
        [("human.created", CREATED), ("human.state_changed", {"from": "busy", "to": "away"})],
        [("human.created", CREATED), ("human.configured", {"version": 3, "config": "sha256:3"})],
    ],
)
def test_fold_event_out_of_order_is_refused(facts: list[tuple[str, dict[str, Json]]]) -> None:
    with pytest.raises(InvalidOperation):
        fold(told(*facts))


def test_fold_without_created_event_is_none() -> None:
    assert fold(told(("human.state_changed", {"from": "available", "to": "busy"}))) is None
    assert ProgramVersion(1, {}, version_of(1, {})[0].digest) == version_of(1, {})[0]
