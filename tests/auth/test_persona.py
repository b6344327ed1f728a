"""Personas: hashed and versioned; roles decide; a thread passes to another only on purpose."""

from dataclasses import replace

import pytest
from hypothesis import given

from turntree.auth.permissions import (
    EVERYTHING,
    NOTHING,
    Permissions,
    actions,
    credentials,
    right,
    tools,
)
from turntree.auth.persona import (
    TOOLSETS,
    Identity,
    ModelDefaults,
    Persona,
    ToolsetConfig,
    read_scopes,
    toolset,
)
from turntree.auth.persona_fork import PersonaForkRequest, decide_fork
from turntree.core.errors import InvalidOperation
from turntree.testing.auth_strategies import personas, rights

ATLAS = Persona(
    "atlas", 1, Identity("Atlas", "You are calm.", "🗺"),
    Permissions(tools("*"), tools("exec.sudo")),
    model=ModelDefaults("claude-sonnet", temperature=0.2),
)  # fmt: skip
SPAWN, EXEC = right("action", "spawn"), right("tool", "exec")


def test_a_version_is_known_by_its_digest() -> None:
    assert ATLAS.digest == replace(ATLAS).digest
    changed = [
        replace(ATLAS, version=2),
        replace(ATLAS, identity=Identity("Atlas")),
        replace(ATLAS, rights=Permissions(tools("*"))),
        replace(ATLAS, sandbox="code"),
        replace(ATLAS, model=ModelDefaults()),
        replace(ATLAS, role="worker"),
        replace(ATLAS, toolsets=(toolset("full", ["read"], 2),)),
        replace(ATLAS, visibility="public"),
        replace(ATLAS, scopes=frozenset({"payroll"})),
    ]
    assert len({ATLAS.digest, *(one.digest for one in changed)}) == len(changed) + 1


@given(personas())
def test_a_persona_reads_back(persona: Persona) -> None:
    assert Persona.from_json(persona.to_json()) == persona


def test_every_member_reads_back() -> None:
    whole = replace(
        ATLAS, sandbox="code", toolset="mine", toolsets=(toolset("mine", ["read"], 3),),
        scopes=frozenset({"payroll"}),
    )  # fmt: skip
    assert Persona.from_json(whole.to_json()) == whole


@pytest.mark.parametrize(
    "document",
    [
        {},
        {**ATLAS.to_json(), "role": "boss"},
        {**ATLAS.to_json(), "identity": {"nickname": "A"}},
        {**ATLAS.to_json(), "toolset": "nowhere"},
        {**ATLAS.to_json(), "toolsets": [{"name": "x"}]},
        {**ATLAS.to_json(), "version": 0},
        {**ATLAS.to_json(), "visibility": "public", "scopes": ["payroll"]},
    ],
)
def test_what_is_no_persona_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(InvalidOperation):
        Persona.from_json(document)


def test_a_role_decides_tools_and_spawning() -> None:
    manager, worker = replace(ATLAS, role="manager"), replace(ATLAS, role="worker")
    assert manager.get_toolset() is TOOLSETS["manager"]
    assert manager.granted.permits(SPAWN)
    assert not manager.granted.permits(EXEC)
    assert worker.granted.permits(EXEC)
    assert not worker.granted.permits(SPAWN)


def test_a_worker_spawns_only_where_its_persona_says_so() -> None:
    allowed = replace(ATLAS, role="worker", rights=Permissions((*tools("*"), *actions("spawn"))))
    assert allowed.granted.permits(SPAWN)
    forbidden = replace(ATLAS, role="manager", rights=Permissions(tools("*"), actions("spawn")))
    assert not forbidden.granted.permits(SPAWN)


def test_a_toolset_of_ones_own_stands_before_the_common_one() -> None:
    own = replace(ATLAS, toolsets=(toolset("full", ["read"], 2),))
    assert own.get_toolset() == ToolsetConfig("full", 2, tools("read"))
    assert not own.granted.permits(EXEC)
    assert own.permitted.permits(EXEC)


def test_a_toolset_gives_no_tool_that_the_permissions_lack() -> None:
    poor = replace(ATLAS, rights=Permissions(credentials("KEY")))
    assert not poor.granted.permits(EXEC)
    assert poor.granted.permits(right("credential", "KEY"))


def test_a_thread_that_one_may_not_read_cannot_be_forked() -> None:
    decided = decide_fork(asking(may_read=False))
    assert decided.verdict == "deny"
    assert "may not read" in decided.reasons[0]


def test_to_restrict_is_free() -> None:
    decided = decide_fork(
        asking(target=replace(ATLAS, rights=Permissions(tools("read")), role="worker"))
    )
    assert (decided.verdict, decided.change) == ("allow", "restriction")


def test_to_change_the_persona_alone_is_free() -> None:
    decided = decide_fork(asking(source=ATLAS.permitted))
    assert (decided.verdict, decided.change) == ("allow", "same")


def test_to_escalate_needs_the_owner_and_a_confirmation() -> None:
    stronger = asking(source=Permissions(tools("read")))
    assert decide_fork(stronger).verdict == "deny"
    assert decide_fork(replace(stronger, confirmed=True)).verdict == "deny"
    granted = decide_fork(replace(stronger, owner_grants=True))
    assert (granted.verdict, granted.change) == ("confirm", "escalation")
    assert "confirm it" in granted.reasons[0]
    assert decide_fork(replace(stronger, owner_grants=True, confirmed=True)).verdict == "allow"


def test_what_is_confidential_never_reaches_a_public_agent() -> None:
    private = asking(scopes=frozenset({"payroll"}), target=replace(ATLAS, visibility="public"))
    decided = decide_fork(replace(private, owner_grants=True, confirmed=True))
    assert decided.verdict == "deny"
    assert decided.reasons == (
        "the thread holds payroll, and atlas is public and not cleared for it",
    )
    cleared = replace(ATLAS, scopes=frozenset({"payroll", "health"}))
    assert decide_fork(replace(private, target=cleared)).verdict == "allow"


def test_every_reason_is_told() -> None:
    worst = asking(source=NOTHING, may_read=False, scopes=frozenset({"payroll"}))
    assert len(decide_fork(worst).reasons) == 3


@given(personas(), rights(), rights())
def test_a_fork_gives_no_more_than_persona_and_caller_have(
    target: Persona, source: Permissions, caller: Permissions
) -> None:
    decided = decide_fork(asking(source=source, target=target, caller=caller))
    assert decided.rights.within(target.permitted)
    assert decided.rights.within(caller)


def test_the_scopes_of_a_thread_are_those_of_all_its_personas() -> None:
    documents = [
        replace(ATLAS, scopes=frozenset({"payroll"})).to_json(),
        ATLAS.to_json(),
        replace(ATLAS, scopes=frozenset({"health"})).to_json(),
    ]
    assert read_scopes(documents) == {"payroll", "health"}


def asking(
    source: Permissions = EVERYTHING,
    target: Persona = ATLAS,
    caller: Permissions = EVERYTHING,
    scopes: frozenset[str] = frozenset(),
    *,
    may_read: bool = True,
) -> PersonaForkRequest:
    return PersonaForkRequest(source, scopes, target, caller, may_read)
