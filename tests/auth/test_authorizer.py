"""Judgements are written down before anybody goes on, and personas change only on purpose."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest

from turntree.api import Tree
from turntree.auth import audit
from turntree.auth.audit import Audit, FactPosition
from turntree.auth.execution_context import ExecutionContext
from turntree.auth.permissions import EVERYTHING, Permissions, actions, credentials, right, tools
from turntree.auth.persona import Identity, Persona
from turntree.auth.store import PermissionStore
from turntree.core.canonical import Json, canonical
from turntree.core.errors import InvalidOperation, NotFound, PermissionDenied
from turntree.core.event import Event
from turntree.core.ids import SessionId, Timestamp
from turntree.core.manifest import Manifest
from turntree.core.message import ToolResult, ToolUse, assistant, tool, user
from turntree.core.principal import Principal
from turntree.db.database import Database
from turntree.testing.fakes import Crash

pytestmark = pytest.mark.anyio

ANA, ATLAS = Principal("human", "ana"), Principal("agent", "atlas")
READ, EXEC = right("tool", "read"), right("tool", "exec")
HUMAN = ExecutionContext.begin(ANA, environment={"KEY": "value"})
AGENT = HUMAN.delegate(ATLAS, Permissions((*tools("read", "write"), *credentials("KEY"))))
PERSONA = Persona("atlas", 1, Identity("Atlas"), Permissions(tools("read", "exec")))


async def session_of(tree: Tree, label: str = "main") -> SessionId:
    return (await tree.sessions.get_or_create(label)).id


async def told(tree: Tree) -> list[Event]:
    return [event for _, event in await tree.feed.read() if event.kind in audit.KINDS]


async def test_a_use_is_written_down_with_its_reason(tree: Tree) -> None:
    session = await session_of(tree)
    with AGENT.entered():
        await tree.authority.grant(session)
        decision = await tree.authority.use(session, READ)
    grant, use = await told(tree)
    assert (grant.kind, use.kind) == ("permission.granted", "permission.used")
    assert use.data["by"] == Principal("agent", "atlas", ANA).to_json()
    assert use.data["reason"] == decision.reason
    assert grant.data["permissions"] == AGENT.rights.to_json()
    assert await tree.checks.fsck(full=True) == []


async def test_a_denial_is_written_down_before_it_is_raised(tree: Tree) -> None:
    session = await session_of(tree)
    with pytest.raises(PermissionDenied, match="nothing allows tool:exec for agent:atlas"):
        await tree.authority.use(session, EXEC, context=AGENT)
    (denied,) = await told(tree)
    assert (denied.kind, denied.data["permission"]) == ("permission.denied", "tool:exec")


async def test_without_a_session_there_is_no_record_and_no_action(tree: Tree) -> None:
    nowhere = SessionId("01a0c3a8-2001-7000-8000-0000000000ff")
    with pytest.raises(NotFound):
        await tree.authority.use(nowhere, READ, context=AGENT)
    with pytest.raises(NotFound):
        await tree.authority.get_credential(nowhere, "KEY", context=AGENT)


async def test_a_credential_is_handed_out_against_a_receipt(tree: Tree) -> None:
    session = await session_of(tree)
    assert await tree.authority.get_credential(session, "KEY", context=AGENT) == "value"
    with pytest.raises(PermissionDenied):
        await tree.authority.get_credential(session, "OTHER", context=AGENT)
    assert [(event.kind, event.data["permission"]) for event in await told(tree)] == [
        ("permission.used", "credential:KEY"),
        ("permission.denied", "credential:OTHER"),
    ]
    assert all("value" not in str(event.data) for event in await told(tree))


async def test_an_audit_can_be_asked_of_a_session_an_agent_and_a_time(tree: Tree) -> None:
    main, other = await session_of(tree), await session_of(tree, "other")
    await tree.authority.use(main, READ, context=HUMAN)
    await tree.authority.use(other, READ, context=AGENT)
    assert {row.session for row in (await tree.authority.audit()).used} == {"main", "other"}
    assert {row.session for row in (await tree.authority.audit(session=other)).used} == {"other"}
    by_agent = await tree.authority.audit(agent="atlas")
    assert {row.who for row in by_agent.used} == {"agent:atlas for human:ana"}
    moment = by_agent.used[0].last_at
    assert {row.who for row in (await tree.authority.audit(until=moment)).used} == {"human:ana"}
    assert {row.session for row in (await tree.authority.audit(since=moment)).used} == {"other"}


async def test_facts_come_in_pages_each_once(tree: Tree) -> None:
    await tree.programs.create("session", "other", {})
    sessions = [await session_of(tree, label) for label in ("main", "other", "third")]
    for session in sessions:
        await tree.authority.grant(session, context=AGENT)
        for _ in range(2):
            await tree.authority.use(session, READ, context=AGENT)
    await tree.programs.grant("other", "human:bob", "read")
    await record_pinned(tree, "third")
    whole = await tree.authority.permissions.list_facts()
    pages = [await tree.authority.list_facts(limit=2)]
    while (last := pages[-1].next) is not None:
        assert FactPosition.parse(str(last)) == last
        pages.append(await tree.authority.list_facts(after=last, limit=2))
    listed = [fact for page in pages for fact in page.facts]
    assert sorted(map(repr, listed)) == sorted(map(repr, whole))
    # A turn with its tools is one entry: nine are events, one is a grant to a person, one a turn.
    assert len(pages) == 6
    only = await tree.authority.list_facts(session=sessions[0])
    assert ({fact.session for fact in only.facts}, only.next) == ({"main"}, None)


async def test_a_page_without_facts_is_refused(tree: Tree) -> None:
    with pytest.raises(InvalidOperation, match="at least one"):
        await tree.authority.list_facts(limit=0)
    for text in ("", "main/1", "01a0c3a8-2001-7000-8000-0000000000ff/x", "1/2/3"):
        with pytest.raises(InvalidOperation, match="not a position"):
            FactPosition.parse(text)


async def record_pinned(tree: Tree, label: str) -> None:
    """Record a turn that says which permissions it had, and used two tools."""
    manifest = Manifest(await tree.personas.pin(PERSONA, context=HUMAN))
    digest = await tree.ledger.put_object(canonical(manifest.to_json()))
    use = ToolUse("c1", "exec", {}), ToolUse("c2", "sudo", {})
    await tree.turns.record(
        label,
        [user("go")],
        [assistant(*use), tool(ToolResult("c1", "ok", "done"), ToolResult("c2", "ok", "done")),
         assistant("done")],
        manifest=digest,
    )  # fmt: skip


async def test_turns_that_pin_permissions_are_audited_too(tree: Tree) -> None:
    await record_pinned(tree, "main")
    report = await tree.authority.audit()
    assert [row.right for row in report.used] == ["tool:exec", "tool:sudo"]
    assert {(one.kind, one.right) for one in report.findings} == {
        ("ungranted", "tool:sudo"),
        ("unused", "tool:read"),
        ("unused", "action:spawn"),
    }
    assert {row.session for row in report.used} == {"main"}


async def test_a_fork_under_another_persona_says_so(tree: Tree) -> None:
    await taken_under(tree, PERSONA)
    weaker = replace(PERSONA, agent="vera", rights=Permissions(tools("read")))
    session = await tree.personas.fork("main", "fork", weaker, context=HUMAN)
    facts = [fact.event for fact in await tree.ledger.facts(session.id)]
    assert [event.kind for event in facts] == [
        "session.created",
        "session.persona_changed",
        "permission.granted",
    ]
    assert facts[1].data["change"] == "restriction"
    assert facts[1].data["digest"] == facts[2].data["persona"] == weaker.digest
    assert Permissions.from_json(facts[2].data["permissions"]) == weaker.permitted  # type: ignore[arg-type]
    assert await tree.checks.fsck(full=True) == []


@dataclass
class Mortal:
    """Permissions whose process dies instead of writing for the nth time."""

    permissions: PermissionStore
    left: int

    async def record(
        self, session: SessionId, kind: str, data: Mapping[str, Json], *, at: Timestamp
    ) -> None:
        if not self.left:
            raise Crash
        self.left -= 1
        await self.permissions.record(session, kind, data, at=at)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.permissions, name)


@pytest.mark.parametrize("writes", [0, 1])
async def test_a_fork_that_dies_half_way_leaves_nothing(tree: Tree, writes: int) -> None:
    await taken_under(tree, PERSONA)
    mortal = cast("PermissionStore", Mortal(tree.personas.permissions, writes))
    dying = replace(
        tree.personas,
        permissions=mortal,
        authority=replace(tree.authority, permissions=mortal),
    )
    with pytest.raises(Crash):
        await dying.fork("main", "fork", PERSONA, context=HUMAN)
    with pytest.raises(NotFound):
        await tree.sessions.get("fork")
    await tree.personas.fork("main", "fork", PERSONA, context=HUMAN)
    assert await tree.checks.fsck(full=True) == []


async def test_an_agent_forks_under_its_own_persona_but_not_by_way_of_others(tree: Tree) -> None:
    await taken_under(tree, PERSONA)
    reader = Permissions((*tools("read"), *actions("read")))
    agent = HUMAN.delegate(ATLAS, reader)
    await tree.personas.fork("main", "again", PERSONA, context=agent)
    other = agent.delegate(Principal("agent", "vera"), reader)
    with pytest.raises(InvalidOperation, match="own behalf"):
        await tree.personas.fork("main", "never", PERSONA, context=other)
    with pytest.raises(NotFound):
        await tree.sessions.get("never")


async def test_a_stronger_persona_needs_its_owner_and_a_confirmation(tree: Tree) -> None:
    await taken_under(tree, PERSONA)
    stronger = replace(PERSONA, agent="vera", rights=EVERYTHING)
    with pytest.raises(PermissionDenied, match="owner of vera has not granted it"):
        await tree.personas.fork("main", "fork", stronger, context=HUMAN)
    with pytest.raises(InvalidOperation, match="confirm it"):
        await tree.personas.fork("main", "fork", stronger, owner_grants=True, context=HUMAN)
    await tree.personas.fork(
        "main", "fork", stronger, owner_grants=True, confirmed=True, context=HUMAN
    )


async def test_what_an_ancestor_knew_is_not_handed_to_the_public(tree: Tree) -> None:
    await taken_under(tree, replace(PERSONA, scopes=frozenset({"payroll"})))
    await taken_under(tree, PERSONA)
    public = replace(PERSONA, agent="help", visibility="public")
    with pytest.raises(PermissionDenied, match="holds payroll, and help is public"):
        await tree.personas.fork("main", "fork", public, context=HUMAN)


async def test_fork_without_read_access_is_refused(tree: Tree) -> None:
    await taken_under(tree, PERSONA)
    blind = ExecutionContext.begin(ANA, Permissions((*tools("*"), *actions("fork"))))
    decided = await tree.personas.decide_fork("main", PERSONA, context=blind)
    assert decided.verdict == "deny"


async def test_permission_events_are_found_by_their_index(database: Database) -> None:
    async with database.connection() as connection:
        await connection.execute("SET LOCAL enable_seqscan = off")
        plan = await (
            await connection.execute(
                "EXPLAIN SELECT body FROM turntree.events WHERE workspace_id = %s AND kind IN"
                " ('permission.granted', 'permission.used', 'permission.denied')",
                (database.workspace,),
            )
        ).fetchall()
    assert "events_permissions" in str(plan)


async def taken_under(tree: Tree, persona: Persona) -> None:
    manifest = Manifest(await tree.personas.pin(persona, context=HUMAN))
    digest = await tree.ledger.put_object(canonical(manifest.to_json()))
    await tree.turns.record("main", [user("go")], [assistant("done")], manifest=digest)


def kinds(report: Audit) -> set[str]:
    return {finding.kind for finding in report.findings}
