"""The ledger as a graph: every kind of edge, from both ends, and the six questions asked of it."""

import re
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import psycopg
import pytest
from psycopg import sql

from tests.db.test_views import Ask
from turntree.api import Tree
from turntree.core import event as events
from turntree.core.canonical import Json
from turntree.core.compaction import Compaction
from turntree.core.event import Event
from turntree.core.ids import (
    EventId,
    ResourceId,
    RunId,
    SessionId,
    Timestamp,
    TurnId,
    instant,
    unix_ms,
)
from turntree.core.message import Message, ToolResult, ToolUse, assistant, tool, user
from turntree.core.principal import Principal
from turntree.core.ref import EventRef, ExtRef, PathRef, Ref, UriRef, to_json
from turntree.core.run import RunEvent
from turntree.core.session import Spawn
from turntree.core.turn import Header, seal
from turntree.core.usage import ModelCall, Usage
from turntree.db.database import Database
from turntree.integrity.fsck import fsck
from turntree.ledger.graph.edge import EDGES, EdgeKind, GraphNode, NodeKind
from turntree.resources.resource import Resource, Scope
from turntree.testing.fakes import FakeClock
from turntree.transcripts.bulk_copy import import_turns
from turntree.transcripts.incoming import ImportedTurn

TAKE_PLACE = """
SELECT set_config('turntree.workspace', %s, false),
  set_config('turntree.viewer', 'human:ana', false)
"""
pytestmark = pytest.mark.anyio

ATLAS = Principal("agent", "atlas")
FIRST, SECOND = Timestamp("2026-01-01T00:00:00.000Z"), Timestamp("2026-02-01T00:00:00.000Z")
PAGE = Path(__file__).parent.parent.parent.parent / "docs/reference/edges.md"
ROW = re.compile(r"^\| `([A-Z_]+)` \| ([^|]+) \| ([^|]+) \| ([^|]*) \|", re.MULTILINE)
BLOCK = re.compile(r"^```sql\n(.*?)^```", re.MULTILINE | re.DOTALL)
FAMILIES = ("history", "lineage", "calls", "resources_at", "policies", "ancestry")
URI = "resource://approval-policy/policy.py"


@dataclass(slots=True)
class Story:
    """A run of ours that leaves a fact of everything, and the turns around it."""

    tree: Tree
    world: FakeClock
    run: RunId
    epoch: int = 1
    said: list[Message] = field(default_factory=list[Message])
    ids: list[EventId] = field(default_factory=list[EventId])
    one: TurnId = field(init=False)
    summary: TurnId = field(init=False)
    main: SessionId = field(init=False)
    worker: SessionId = field(init=False)
    side: SessionId = field(init=False)
    folder: ResourceId = field(init=False)

    def event(self, seq: int) -> str:
        return f"{self.run}/event/{seq}"

    def ref(self, seq: int) -> Json:
        return to_json(EventRef(self.ids[seq]))

    async def tell(
        self,
        kind: str,
        said: Message | None = None,
        /,
        *,
        valid_from: Timestamp | None = None,
        **data: Any,
    ) -> str:
        """Record the next fact of the run, as any worker would, and return its node's id."""
        place = len(self.ids)
        event = Event(
            self.run, place, kind, self.world.now(), data, (), f"{self.run}/chain", valid_from
        )
        fact = RunEvent.of(event, said)
        self.ids.append(events.record(fact.event).id)
        if said is not None:
            self.said.append(said)
        if place:
            await self.tree.ledger.append_fact(fact, epoch=self.epoch)
        else:
            self.epoch = await self.tree.ledger.start(self.run, self.main, fact)
        return self.event(place)


def ref(value: Ref) -> Json:
    return to_json(value)


@pytest.fixture
async def story(tree: Tree, world: FakeClock) -> Story:
    told = Story(tree, world, RunId(world.new_id()))
    await tell_turns(told)
    await tell_attachment(told)
    await tell_run(told)
    await tell_of_things(told)
    await seal_run(told)
    return told


async def tell_turns(told: Story) -> None:
    tree = told.tree
    reply = [assistant(ToolUse("c1", "agent.spawn", {})), tool(ToolResult("c1", "ok", "yes"))]
    calls = [ModelCall("m", Usage(10, 5), "p", "q1")]
    one = await tree.turns.record(
        "main", [user("go")], [*reply, assistant("gone")], calls=calls, by=ATLAS
    )
    two = await tree.turns.record("main", [user("go on")], [assistant("done")])
    details = Compaction(two.turn.id, None, 2)
    three = await tree.turns.record(
        "main", [], [assistant("in short")], compaction=details, calls=calls
    )
    told.one, told.summary = one.turn.id, three.turn.id
    told.main = (await tree.sessions.get("main")).id
    spawn = Spawn(told.main, one.turn.id, "c1", "fresh", "look around")
    told.worker = (await tree.sessions.create("worker", spawn=spawn)).id
    helper = Spawn(told.main, one.turn.id, "c1", "fork")
    await tree.sessions.fork(one.turn.id, "helper", spawn=helper)
    told.side = (await tree.sessions.fork(two.turn.id, "side")).id


async def tell_attachment(told: Story) -> None:
    now, tree = told.world.now, told.tree
    scope = Scope(session_id=told.main)
    new = Resource(
        ResourceId(told.world.new_id()), "directory", "here", "/srv", "work", frozenset(),
        imperative=False, created_at=now(), scope=scope,
    )  # fmt: skip
    told.folder = (await tree.resources.ledger.ensure(new, by="human:ana")).id
    await tree.resources.attachments.attach(new.id, told.main, "rw", by="human:ana", at=now())


async def tell_run(told: Story) -> None:
    await told.tell("run.started", user("and now?"))
    await told.tell("model_call.started", model="m", input_refs=[ref(UriRef("resource://notes"))])
    await told.tell("model_call.finished", assistant(ToolUse("t1", "exec", {"cmd": "ls"})))
    await told.tell("tool_call.started", call_id="t1", tool="exec")
    answered = tool(ToolResult("t1", "ok", "a.py"))
    await told.tell("tool_call.finished", answered, call_id="t1", status="ok")
    await told.tell("message.appended", user("hurry"), list="side-notes")
    await told.tell("model_call.finished", assistant("there is a.py"))
    await told.tell("model_call.started", model="m")


async def tell_of_things(told: Story) -> None:
    await told.tell("run.interrupted", reason="timeout", affects=[told.ref(3)])
    await told.tell(
        "event.substituted", original=told.ref(4), replacement=told.ref(6), reason="cut"
    )
    await told.tell(
        "resource.attached", resource_ref="vol-1", mode="ro", mount="/data", part_of="box-1",
        kind="docker_volume", name="cache", capabilities=["snapshot"],
        scope={"agent_id": "agent:atlas"}, handle={"id": "h1", "provider": "docker"},
        valid_from=FIRST,
    )  # fmt: skip
    await told.tell(
        "resource.attached", resource_ref="vol-2", agent_id="agent:atlas", mode="rw",
        container_ref=ref(ExtRef("docker", "c9")), mount="/x", scope={"run_id": told.run},
    )  # fmt: skip
    await told.tell("resource.detached", resource_ref="vol-1", valid_from=SECOND)
    await told.tell(
        "snapshot.created", resource_ref="vol-1", snapshot_ref="snap-1", outcome="ok",
        method="fs_copy", external_ref=ref(ExtRef("tar", "sha256:00")),
    )  # fmt: skip
    await told.tell(
        "snapshot.restore_attempted", snapshot_ref="snap-1", outcome="ok", new_resource_ref="vol-3"
    )
    await told.tell("mcp.resource_updated", server="files", uri="file:///a", etag="7")
    await told.tell("session.forked", from_branch="main", to_branch=told.side, at_event=told.ref(2))
    await told.tell("session.forked", to_branch=told.side, agent_id="agent:atlas")
    await told.tell("policy.proposed", policy_ref=ref(PathRef("policy.py")), notes="stricter")
    await told.tell("policy.activated", policy_ref=ref(UriRef(URI)), valid_from=FIRST)
    await told.tell("policy.activated", policy_ref=ref(PathRef("policy.py")), valid_from=SECOND)


async def seal_run(told: Story) -> None:
    head = await told.tree.turns.get("main")
    at = told.world.now()
    one = await told.tree.turns.get(told.one)
    header = Header(
        TurnId(told.run), head.turn.digest, ATLAS, at, at, "interrupted", model="m",
        retry_of=told.one, derived_from=(one.turn.digest, told.ids[2]),
    )  # fmt: skip
    query = [said for said in told.said if said.role == "user"]
    sealed = seal(header, query, [said for said in told.said if said.role != "user"])
    finished = Event(told.run, len(told.ids), "run.finished", at, {"turn": sealed.turn.digest})
    await told.tree.ledger.seal(
        sealed,
        head.turn.id,
        by=str(ATLAS),
        at=at,
        session=told.main,
        journal=[events.record(finished)],
        epoch=told.epoch,
    )


@pytest.fixture
def ask(story: Story, conninfo: str, database: Database) -> Generator[Ask, None, None]:
    """A person with the reader's role, inside the workspace."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("SET ROLE turntree_reader")
        connection.execute(TAKE_PLACE, (str(database.workspace),))
        yield Ask(connection)


async def test_every_kind_of_edge_leads_between_the_kinds_of_nodes_it_may(ask: Ask) -> None:
    rows = ask("SELECT kind, from_kind, to_kind, attributes FROM ledger.edges")
    assert {kind for kind, *_ in rows} == set(get_args(EdgeKind)) == EDGES.keys()
    for kind, source, target, attributes in rows:
        edge = EDGES[kind]
        assert not edge.sources or source in edge.sources, (kind, source)
        assert not edge.targets or target in edge.targets, (kind, target)
        assert set(edge.attributes) <= attributes.keys(), (kind, attributes)


async def test_ledger_with_all_kinds_passes_fsck(database: Database, story: Story) -> None:
    assert story.ids
    assert await fsck(database) == []


async def test_run_with_several_causes_lists_all(story: Story) -> None:
    told = await story.tree.causes.explain(TurnId(story.run), depth_max=1)
    assert [(cause.how, cause.node.kind) for cause in told.causes] == [
        ("derives", "Event"), ("derives", "Run"), ("retries", "Run"), ("follows", "Run"),
    ]  # fmt: skip
    assert told.bound == "depth"
    far = await story.tree.causes.explain(TurnId(story.run), depth_max=9)
    assert far.bound is None
    # One turn is told once; elsewhere it is only named.
    assert [cause.seen for cause in far.causes] == [False, False, True, False]


async def test_every_end_an_edge_may_have_is_planted(ask: Ask) -> None:
    rows = ask("SELECT kind, from_kind, to_kind FROM ledger.edges")
    sources = {(kind, source) for kind, source, _ in rows}
    targets = {(kind, target) for kind, _, target in rows}
    # Nothing records these yet: the table of edges allows them to whoever will.
    absent = {("APPENDED_TO_HISTORY", "Agent")}
    wanted = {(kind, source) for kind, edge in EDGES.items() for source in edge.sources}
    assert wanted - sources == absent
    absent = {("SUMMARIZES", "Message"), ("SUMMARIZES", "Event")}
    wanted = {(kind, target) for kind, edge in EDGES.items() for target in edge.targets}
    assert wanted - targets == absent


@pytest.mark.slow
async def test_an_edge_is_found_from_both_of_its_ends(ask: Ask) -> None:
    every = ask("SELECT e::text, e.from_id, e.to_id FROM ledger.edges e")
    edges = sorted(edge for edge, *_ in every)
    assert len(set(edges)) == len(edges)
    sources, targets = ({edge[end] for edge in every} for end in (1, 2))
    left, right = (
        "SELECT e::text FROM ledger.edges_from(%s) e",
        "SELECT e::text FROM ledger.edges_to(%s) e",
    )
    assert sorted(edge for id in sources for edge in ask(left, id)) == edges
    assert sorted(edge for id in targets for edge in ask(right, id)) == edges


async def test_every_end_is_a_node_and_every_kind_of_node_is_there(ask: Ask) -> None:
    nodes = set(ask("SELECT kind, id FROM ledger.nodes"))
    ends = ask(
        "SELECT from_kind, from_id FROM ledger.edges UNION SELECT to_kind, to_id FROM ledger.edges"
    )
    # A container is known by whatever mounts into it.
    assert [end for end in ends if end[0] != "Container" and end not in nodes] == []
    assert {kind for kind, _ in nodes} == {
        "Agent", "Run", "Event", "Message", "Generation", "ToolCall", "ToolResult", "Summary",
        "Resource", "Snapshot", "Handle", "Policy", "Subagent", "Branch",
    }  # fmt: skip
    for kind, id in nodes:
        assert kind in ask("SELECT kind FROM ledger.node(%s)", id)


async def test_nodes_follow_from_events(ask: Ask) -> None:
    def attributes(id: str) -> dict[str, Any]:
        (found,) = ask("SELECT attributes FROM ledger.node(%s)", id)
        return dict(found)

    assert attributes("vol-1")["name"] == "cache"
    assert attributes("snap-1")["method"] == "fs_copy"
    assert attributes("h1") == {"id": "h1", "provider": "docker"}
    assert attributes(URI)["kind"] == attributes("policy.py")["kind"] == "active"


async def test_edges_match_their_kinds(ask: Ask, story: Story) -> None:
    def only(kind: str, to: str) -> dict[str, Any]:
        (found,) = ask(
            "SELECT attributes FROM ledger.edges WHERE kind = %s AND to_id = %s", kind, to
        )
        return dict(found)

    assert only("RUN_HAS_EVENT", story.event(3))["seq"] == 3
    assert only("APPENDED_TO_HISTORY", f"{story.run}/0") == {"list": "main"}
    assert only("APPENDED_TO_HISTORY", f"{story.run}/1") == {"list": "side-notes"}
    assert only("MCP_RESOURCE_UPDATED", "file:///a")["uri"] == "file:///a"
    mounted = only("MOUNTS_RESOURCE", "vol-1")
    assert (mounted["mount"], mounted["mode"]) == ("/data", "ro")
    assert only("ATTACHED_TO", "agent:atlas")["mode"] == "rw"
    assert only("INTERRUPTS", story.event(3))["reason"] == "timeout"


async def test_a_message_is_consumed_and_produced_by_events(ask: Ask, story: Story) -> None:
    produced = "SELECT to_kind, to_id FROM ledger.edges_from(%s) WHERE kind = 'EVENT_PRODUCES'"
    assert sorted(ask(produced, story.event(6))) == [
        ("Generation", f"{story.run}/generation/4"),
        ("Message", f"{story.run}/4"),
    ]
    assert sorted(ask(produced, story.event(4))) == [
        ("Message", f"{story.run}/3"),
        ("ToolResult", f"{story.run}/result/t1"),
    ]
    assert ask(
        "SELECT from_kind, from_id FROM ledger.edges_to(%s) ORDER BY 1, 2",
        f"{story.run}/call/t1",
    ) == [
        ("Event", story.event(3)),
        ("Event", story.event(4)),
        ("Generation", f"{story.run}/generation/2"),
    ]


async def test_history_is_the_events_of_a_run_in_order(story: Story) -> None:
    found = await story.tree.edges.list_history(story.run)
    assert [each.seq for each in found] == list(range(len(story.ids) + 1))
    assert (found[0].kind, found[-1].kind) == ("run_started", "run_finished")
    assert found[3].node == GraphNode("Event", story.event(3))
    assert found[3].data["call_id"] == "t1"


async def test_lineage_respects_step_limit(story: Story) -> None:
    far = await story.tree.edges.list_lineage(story.run)
    assert {(one.how, one.target.kind) for one in far} == {
        ("follows", "Run"), ("retries", "Run"), ("derives", "Run"), ("derives", "Event"),
    }  # fmt: skip
    assert max(one.step for one in far) == 3
    near = await story.tree.edges.list_lineage(story.run, depth_max=1)
    assert {one.target.id for one in near} == {story.one, story.summary, story.event(2)}
    (restored,) = await story.tree.edges.list_lineage("vol-3")
    assert (restored.how, restored.target) == ("restored", GraphNode("Snapshot", "snap-1"))


async def test_a_call_is_correlated_with_its_result(story: Story) -> None:
    (call,) = await story.tree.edges.list_calls(story.run)
    assert (call.call_id, call.tool, call.status) == ("t1", "exec", "ok")
    assert (call.call_event, call.result_event) == (story.event(3), story.event(4))
    assert (call.message_id, call.correlation_id) == (f"{story.run}/2", f"{story.run}/chain")
    (spawning,) = await story.tree.edges.list_calls(story.one)
    assert spawning.spawned == story.worker


async def test_resource_validity_uses_valid_time(story: Story) -> None:
    async def held(at: Timestamp) -> set[tuple[str, str, str]]:
        found = await story.tree.edges.list_held(at)
        return {(one.kind, one.holder.id, one.resource) for one in found}

    before, during = instant(unix_ms(FIRST) - 1), instant(unix_ms(SECOND) - 1)
    assert await held(before) == set()
    assert await held(during) == {
        ("ATTACHED_TO", story.run, "vol-1"),
        ("MOUNTS_RESOURCE", story.run, "vol-1"),
        ("OWNS_RESOURCE", "agent:atlas", "vol-1"),
    }
    assert await held(SECOND) == set()
    assert await held(story.world.now()) == {
        ("ATTACHED_TO", "agent:atlas", "vol-2"),
        ("MOUNTS_RESOURCE", "docker:c9", "vol-2"),
        ("OWNS_RESOURCE", story.run, "vol-2"),
        ("ATTACHED_TO", story.main, story.folder),
        ("OWNS_RESOURCE", story.main, story.folder),
    }
    (own,) = [
        one
        for one in await story.tree.edges.list_held(during, holder="agent:atlas")
        if one.kind == "OWNS_RESOURCE"
    ]
    assert (own.valid_from, own.valid_to) == (FIRST, SECOND)
    assert own.recorded_at > SECOND


async def test_a_policy_is_in_force_until_the_next_one_is(story: Story) -> None:
    found = await story.tree.edges.list_policies()
    assert [(one.what, one.policy, one.valid_to) for one in found] == [
        ("activated", URI, SECOND),
        ("activated", "policy.py", None),
        ("proposed", "policy.py", None),
    ]
    assert found[2].notes == "stricter"
    assert await story.tree.edges.list_policies(agent="agent:nobody") == []


async def test_sessions_know_where_they_were_forked_and_by_whom_spawned(story: Story) -> None:
    (spawned,) = await story.tree.edges.list_ancestry(story.worker)
    assert (spawned.kind, spawned.parent, spawned.turn) == ("SPAWNED_FROM", story.main, story.one)
    assert (spawned.call_id, spawned.mode) == ("c1", "fresh")
    (forked,) = await story.tree.edges.list_ancestry(story.side)
    assert (forked.kind, forked.parent, forked.by) == ("FORKED_FROM", story.main, "human:ana")
    nested = await story.tree.sessions.fork("side", "nested")
    assert [one.kind for one in await story.tree.edges.list_ancestry(nested.id)] == ["FORKED_FROM"]
    assert await story.tree.edges.list_ancestry(story.main) == []


def test_the_reference_lists_every_kind_of_edge_with_its_ends() -> None:
    def cell(kinds: frozenset[NodeKind]) -> set[str]:
        return set(kinds) or {"any"}

    listed = {
        kind: (set(source.split(", ")), set(target.split(", ")), re.findall(r"`(\w+)`", named))
        for kind, source, target, named in ROW.findall(PAGE.read_text(encoding="utf-8"))
    }
    assert listed == {
        kind: (cell(edge.sources), cell(edge.targets), list(edge.attributes))
        for kind, edge in EDGES.items()
    }


async def test_the_examples_of_the_reference_find_something(ask: Ask, story: Story) -> None:
    examples = [
        statement
        for block in BLOCK.findall(PAGE.read_text(encoding="utf-8"))
        for statement in block.split(";\n")
        if statement.strip()
    ]
    assert len(examples) > len(FAMILIES)
    for example in examples:
        said = example.replace("…run…", story.run).replace("…session…", story.side)
        assert ask.run(sql.SQL(said)), example
    assert [name for name in FAMILIES if not any(name in example for example in examples)] == []


async def test_edges_of_invalid_event_data_are_bounded(tree: Tree, world: FakeClock) -> None:
    stream = world.new_id()
    badly: list[dict[str, Json]] = [{}, {"uri": 7}, {"uri": "x" * 10_000}]
    for seq, data in enumerate(badly):
        fact = Event(stream, seq, "mcp.resource_updated", world.now(), data)
        assert await tree.ledger.append(events.record(fact))
    found = await tree.edges.list_from(f"{stream}/event/2")
    assert [len(edge.target.id) for edge in found] == [600]


async def test_an_imported_journal_leaves_the_same_edges(
    tree: Tree, database: Database, world: FakeClock
) -> None:
    at = world.now()
    header = Header(TurnId(world.new_id()), None, ATLAS, at, at)
    sealed = seal(header, [user("go")], [assistant("gone")])
    data: dict[str, Json] = {"uri": "file:///b", "server": "files"}
    fact = events.record(Event(header.id, 0, "mcp.resource_updated", at, data))
    await import_turns(database, [ImportedTurn(sealed, None, (), (fact,))])
    (updated,) = await tree.edges.list_to("file:///b")
    assert updated.source == GraphNode("Event", f"{header.id}/event/0")
    acted = [edge.target.id for edge in await tree.edges.list_from("agent:atlas")]
    assert acted == [header.id]


async def test_no_look_up_along_edges_reads_all_bodies_or_all_turns(
    ask: Ask, story: Story, conninfo: str
) -> None:
    with psycopg.connect(conninfo, autocommit=True) as owner:
        owner.execute("ANALYZE")
    # Small tables are cheaper to read whole; what matters is that nobody has to.
    ask("SELECT set_config('enable_seqscan', 'off', false)")
    for id in (story.run, story.event(3), f"{story.run}/0", "agent:atlas", "vol-1", story.side):
        for function in ("edges_from", "edges_to"):
            asked = sql.SQL("EXPLAIN SELECT * FROM ledger.{}({})").format(
                sql.Identifier(function), sql.Literal(id)
            )
            plan = str(ask.run(asked))
            assert "Seq Scan on turn_bodies" not in plan, (function, id)
            assert "Seq Scan on turns" not in plan, (function, id)
            assert "Seq Scan on event" not in plan, (function, id)


async def test_another_workspace_has_no_edges(ask: Ask, story: Story) -> None:
    ask("SELECT set_config('turntree.workspace', '', false)")
    assert ask("SELECT count(*) FROM ledger.edges") == [0]
    assert ask("SELECT count(*) FROM ledger.nodes") == [0]
    assert ask("SELECT count(*) FROM ledger.edges_from(%s)", story.run) == [0]
