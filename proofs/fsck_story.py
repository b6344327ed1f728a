"""A history with something of every kind that fsck knows, told as often as one likes.

Knows how the product is called. Must never know what is planted into what it tells.
"""

from dataclasses import replace
from typing import Final

from turntree.api import Tree
from turntree.auth.execution_context import ExecutionContext
from turntree.auth.permissions import Permissions, right, tools
from turntree.core.canonical import Json, canonical, digest_bytes
from turntree.core.compaction import Compaction
from turntree.core.event import Event, record
from turntree.core.ids import (
    Digest,
    Label,
    PlanId,
    ResourceId,
    RunId,
    SessionId,
    SnapshotId,
    TurnId,
)
from turntree.core.manifest import Manifest, ManifestEntry
from turntree.core.message import (
    PART_INLINE_MAX_BYTES,
    Message,
    ToolResult,
    ToolUse,
    assistant,
    tool,
    user,
)
from turntree.core.message_context import TouchedFile
from turntree.core.principal import Principal
from turntree.core.ref import ExtRef
from turntree.core.run import RunEvent
from turntree.core.session import Origin, Session, Spawn
from turntree.core.turn import Header, seal
from turntree.core.usage import ModelCall, Usage, to_json
from turntree.ledger.store import Ledger
from turntree.policy.approval import EXPIRES_S, ForeignCall, approval_id, expiry_after
from turntree.policy.local import shipped_policy
from turntree.resources.plans import plan as plans
from turntree.resources.plans.steps import (
    CreateForkSession,
    ForkResource,
    Plan,
    ResourceShare,
    RestoreResource,
    StepTarget,
)
from turntree.resources.resource import Capability, Handle, Resource, Snapshot, TurnSnapshot
from turntree.runs.approving.approval_store import ApprovalStore
from turntree.runs.engines.inline import InlineEngine
from turntree.runs.inbox import StartRun
from turntree.runs.inbox_store import InboxStore

CALLS: Final = [
    ModelCall("opus", Usage(10, 20, 30, 40, 5), "anthropic", "call-1"),
    ModelCall("haiku", Usage()),
]
FORKABLE: Final[frozenset[Capability]] = frozenset({"snapshot", "restore", "fork"})
KEPT: Final[frozenset[Capability]] = frozenset({"snapshot"})
USE: Final = ToolUse("use-1", "read", {"path": "a", "share": 0.5})
USED: Final = [assistant(USE), tool(ToolResult("use-1", "ok", "text")), assistant("2")]


async def tell(tree: Tree, copy: int) -> None:
    """Tell the whole story under names that end in a number."""
    await _tell_session(tree, f"main-{copy}", copy)
    await _tell_forks(tree, f"main-{copy}", copy)
    await _tell_moves(tree, f"main-{copy}", copy)
    await _tell_open_run(tree, copy)
    await _tell_interrupted_run(tree, copy)
    await _tell_inbox(tree, copy)
    await tell_approvals(tree, f"judged-{copy}")
    await _tell_replacement(tree, copy)
    await tell_resources(tree, f"main-{copy}", copy)
    await _tell_programs(tree, copy)
    await _tell_grant(tree, copy)
    await tree.members.add(f"member-{copy}")
    # Its author is a member from here on, with all who have written something by now.
    await tell_policy(tree, f"agent-{copy}")
    await tell_conversation(tree, f"talk-{copy}")


async def _tell_session(tree: Tree, label: str, copy: int) -> None:
    def said(word: str) -> list[Message]:
        return [user(f"{word} {copy}")]

    record_next = tree.turns.record
    first = await record_next(label, said("begin"), [assistant("1")], calls=CALLS, key=f"k{copy}")
    manifest = await _keep_manifest(tree, copy)
    files: list[Json] = [TouchedFile("read", "a.py", 1, 9).to_json(), {"path": "no kind"}]
    looked = [replace(said("look")[0], context={"files": files})]
    second = await record_next(label, looked, USED, model="opus", manifest=manifest)
    large = [user(f"{copy} " * PART_INLINE_MAX_BYTES)]
    third = await record_next(label, large, [assistant("large")])
    await record_next(
        label, said("go on"), [assistant("4")], derived_from=(first.turn.digest, third.turn.digest)
    )
    summary = Compaction(second.turn.id, third.turn.id, 2, tokens_before=100)
    await record_next(label, said("sum up"), [assistant("so far")], compaction=summary)
    await tree.turns.tag(first.turn.id, f"good-{copy}")
    await tree.turns.tag(second.turn.id, "often")
    await tree.turns.tag(third.turn.id, "soon-gone")
    await tree.turns.untag(third.turn.id, "soon-gone")
    session = await tree.sessions.get(label)
    spawn = Spawn(session.id, second.turn.id, USE.call_id, task="look around")
    await tree.sessions.create(f"worker-{copy}", spawn=spawn)
    await record_next(f"worker-{copy}", said("work"), [assistant("worked")])


async def _keep_manifest(tree: Tree, copy: int) -> Digest:
    spec = await tree.ledger.put_object(canonical({"name": "read", "copy": copy}))
    granted = Permissions(tools("*"), tools("write"))
    rights = await tree.ledger.put_object(canonical(granted.to_json()))
    manifest = Manifest(
        (ManifestEntry("tool", "read", spec), ManifestEntry("permissions", "granted", rights))
    )
    return await tree.ledger.put_object(canonical(manifest.to_json()))


async def _tell_forks(tree: Tree, label: str, copy: int) -> None:
    at = f"{label}~3"
    for name in (f"fork-{copy}", f"deep-{copy}", f"deeper-{copy}"):
        await tree.sessions.fork(at, name)
        await tree.turns.record(name, [user(f"on {name}")], [assistant("on")])
        await tree.turns.record(name, [user(f"and on {name}")], [assistant("on")])
        at = f"{name}~1"


async def _tell_moves(tree: Tree, label: str, copy: int) -> None:
    await tree.sessions.rewind(label, f"{label}~2")
    await tree.sessions.undo(label)
    await tree.sessions.replay(label, f"fork-{copy}")
    await tree.sessions.undo(label)
    await tree.sessions.alias(label, f"also-{copy}")
    await tree.sessions.create(f"old-{copy}", origin=Origin("elsewhere", str(copy)))
    await tree.sessions.set_status(f"old-{copy}", "archived")
    await tree.turns.record(f"erased-{copy}", [user(f"take {copy} out")], [assistant("done")])
    await tree.turns.erase(f"erased-{copy}", 0, reason="asked for")


async def _tell_open_run(tree: Tree, copy: int) -> None:
    world, ledger = tree.revisions.world, tree.ledger
    session = await tree.sessions.create(f"open-{copy}")
    run = RunId(world.new_id())
    epoch = await ledger.start(run, session.id, _fact(tree, run, 0, "run.started", user("go")))
    await ledger.append_fact(
        _fact(tree, run, 1, "model_call.started", correlation="r1"), epoch=epoch
    )
    reply = _fact(tree, run, 2, "model_call.finished", assistant(USE), correlation="r1")
    await ledger.append_fact(reply, epoch=epoch)


async def _tell_interrupted_run(tree: Tree, copy: int) -> None:
    world, ledger = tree.revisions.world, tree.ledger
    session = await tree.sessions.create(f"stopped-{copy}")
    run = RunId(world.new_id())
    asked, answered = user(f"stop {copy}"), assistant(USE)
    epoch = await ledger.start(run, session.id, _fact(tree, run, 0, "run.started", asked))
    call: dict[str, Json] = {"call": to_json(CALLS[0])}
    for fact in (
        _fact(tree, run, 1, "model_call.started", correlation="r1"),
        _fact(tree, run, 2, "model_call.finished", answered, call, correlation="r1"),
        _fact(tree, run, 3, "tool_call.started", data={"call_id": USE.call_id}),
        _fact(tree, run, 4, "run.interrupted", data={"reason": "crash"}),
    ):
        await ledger.append_fact(fact, epoch=epoch)
    at = world.now()
    header = Header(TurnId(run), None, tree.sessions.by, at, at, "interrupted")
    gone = tool(ToolResult(USE.call_id, "interrupted", "crash"))
    finished = record(_fact(tree, run, 5, "run.finished").event)
    await ledger.seal(
        seal(header, [asked], [answered, gone]), None, session=SessionId(session.id), by="human:a",
        at=at, calls=CALLS[:1], journal=[finished], epoch=epoch,
    )  # fmt: skip


async def _tell_inbox(tree: Tree, copy: int) -> None:
    """A run that is parked, a message that waits behind it, and one that nobody looked at."""
    world, ledger, by = tree.revisions.world, tree.ledger, str(tree.sessions.by)
    assert isinstance(ledger, Ledger), "the story is told on PostgreSQL"
    inbox = InboxStore(ledger.database, InlineEngine(ledger.database.lend))
    asked = await tree.sessions.create(f"asked-{copy}")
    waiting = await tree.sessions.create(f"waiting-{copy}")
    for session, text in ((asked, "first"), (asked, "second"), (waiting, "third")):
        key = f"{text}-{copy}"
        await inbox.post(session.id, user(text), by=by, at=world.now(), key=key)
    found = await inbox.next_work(asked.id, worker="w1")
    assert isinstance(found, StartRun), "nobody else works here"
    run = found.messages[0].run
    started = _fact(tree, run, 0, "run.started", found.messages[0].message)
    epoch = await inbox.begin(run, asked.id, [started], [1], worker="w1")
    parked = _fact(tree, run, 1, "run.parked", data={"reason": "approval"})
    await inbox.append_facts([parked], epoch=epoch)
    await inbox.next_work(asked.id, worker="w1")


async def tell_approvals(tree: Tree, label: str) -> None:
    """A call that a person allowed and that has started, one that waits, and a foreign one."""
    world, ledger, by = tree.revisions.world, tree.ledger, str(tree.sessions.by)
    assert isinstance(ledger, Ledger), "the story is told on PostgreSQL"
    engine = InlineEngine(ledger.database.lend)
    approvals = replace(tree.approvals, store=ApprovalStore(ledger.database, engine))
    inbox = InboxStore(ledger.database, engine)
    session = await tree.sessions.create(label)
    await inbox.post(session.id, user("deploy"), by=by, at=world.now())
    work = await inbox.next_work(session.id, worker="w1")
    assert isinstance(work, StartRun), "nobody else works here"
    run = work.messages[0].run
    uses = [ToolUse(f"call-{number}", "deploy", {"to": number}) for number in (1, 2)]
    at = world.now()
    asked: list[dict[str, Json]] = [
        {
            "approval": approval_id(run, use.call_id, at), "kind": "call", "call_id": use.call_id,
            "tool": use.tool, "args_digest": digest_bytes(canonical(use.args)), "reason": "it asks",
            "answerers": [], "expires_at": expiry_after(at, EXPIRES_S),
        }
        for use in uses
    ]  # fmt: skip
    allowed = asked[0]
    started = {name: allowed[name] for name in ("approval", "call_id", "tool", "args_digest")}
    epoch = await inbox.begin(
        run, session.id, [_fact(tree, run, 0, "run.started", work.messages[0].message)], [1],
        worker="w1",
    )  # fmt: skip
    facts = [
        _fact(tree, run, 1, "model_call.started", correlation="r1"),
        _fact(tree, run, 2, "model_call.finished", assistant(*uses), {"call": to_json(CALLS[0])},
              correlation="r1"),
        *(_fact(tree, run, 3 + place, "tool_call.judged", data={
            "call_id": one["call_id"], "tool": one["tool"], "server": "worker", "decision": "ask",
            "args_digest": one["args_digest"], "reason": "it asks", "effects": [], "chain": [by],
            "effects_declared": True, "source": "human", "approval": one["approval"],
        }) for place, one in enumerate(asked)),
        *(_fact(tree, run, 5 + place, "approval.requested", data=one)
          for place, one in enumerate(asked)),
    ]  # fmt: skip
    await inbox.append_facts(facts, epoch=epoch)
    await approvals.approve(str(allowed["approval"]))
    await inbox.append_facts([_fact(tree, run, 7, "tool_call.started", data=started)], epoch=epoch)
    call = ForeignCall("codex", "shell", {"command": "ls"}, label)
    await approvals.reject((await approvals.request_foreign(call)).id, note="no")


async def tell_policy(tree: Tree, agent: str) -> None:
    """A policy of one agent, in force."""
    version = await tree.policies.propose(shipped_policy().source, agent=agent)
    await tree.policies.activate(version.number, agent=agent)


async def _tell_grant(tree: Tree, copy: int) -> None:
    session = await tree.sessions.create(f"granted-{copy}")
    human = ExecutionContext.begin(Principal("human", "ana"), Permissions(tools("read", "write")))
    agent = human.delegate(Principal("agent", f"atlas-{copy}"), Permissions(tools("read", "exec")))
    await tree.authority.grant(session.id, context=agent)
    await tree.authority.use(session.id, right("tool", "read"), context=agent)


async def _tell_replacement(tree: Tree, copy: int) -> None:
    stream = tree.revisions.world.new_id()
    events = [
        record(Event(stream, seq, "acme.noted", tree.revisions.world.now(), {"copy": copy}))
        for seq in range(2)
    ]
    data: dict[str, Json] = {"original": events[0].id, "replacement": events[1].id}
    events.append(record(Event(stream, 2, "event.substituted", tree.revisions.world.now(), data)))
    for event in events:
        await tree.ledger.append(event)


async def tell_resources(tree: Tree, label: str, copy: int) -> None:
    """Let a session work on a folder, a container and a process, and fork it."""
    world, resources = tree.revisions.world, tree.resources
    session = await tree.sessions.get(label)
    folder = await _resource(tree, "directory", f"/srv/{copy}", FORKABLE)
    box = await _resource(tree, "container", f"box-{copy}", KEPT)
    pipe = await _resource(tree, "process", f"pipe-{copy}", frozenset())
    handle = Handle(f"grip-{copy}", pipe.id, "here", str(copy))
    attach, by = resources.attachments.attach, "human:ana"
    await attach(folder.id, session.id, "rw", by=by, at=world.now())
    await attach(box.id, session.id, "ro", by=by, at=world.now())
    await attach(pipe.id, session.id, "rw", by=by, at=world.now(), handle=handle)
    await resources.attachments.detach(pipe.id, session.id, by=by, at=world.now())
    before, after = [await _state(tree, folder, f"{copy} {word}") for word in ("was", "is")]
    boxed = await _state(tree, box, f"{copy} boxed")
    turn = session.head
    assert turn is not None, "the session has turns"
    pin = TurnSnapshot(turn, folder.id, after.id, before.id, "rw", world.now(), world.now())
    await resources.pins.pin(pin, by=by, at=world.now())
    await resources.advice.note_liveness(folder.id, "alive", world.now())
    await resources.advice.lease(folder.id, "somebody", world.now(), world.now())
    await _tell_fork(tree, session, copy, folder, box, after)
    await _tell_attempt(tree, box, boxed)


async def _tell_fork(
    tree: Tree, source: Session, copy: int, folder: Resource, box: Resource, state: Snapshot
) -> None:
    world, facts, by = tree.revisions.world, tree.plans.facts, "human:ana"
    session, head = SessionId(world.new_id()), source.head
    assert head is not None, "the session has turns"
    site = StepTarget(folder.id, "directory", f"/srv/{copy}@fork")
    fork = ForkResource(site, ResourceId(world.new_id()), "fork", "rw", state.id, state.external)
    shares = (
        ResourceShare(folder.id, "snapshot", fork=0),
        ResourceShare(box.id, "keep", kept_by=source.id),
    )
    at_event = await tree.resources.attachments.newest_event(source.id)
    begin = CreateForkSession(session, Label(f"planned-{copy}"), head, source.id, at_event, shares)
    plan = Plan(PlanId(world.new_id()), "fork", "here", by, (fork, begin))
    await facts.begin(record(plans.plan_started(plan, world.now())))
    began = plans.step_started(plans.PlanState(plan), 0, world.now())
    told = plans.apply(plans.PlanState(plan), began)
    made = plans.StepResult("ok", state.id, state.external)
    forked = plans.step_finished(told, 0, made, world.now())
    told = plans.apply(told, forked)
    await facts.append(record(began))
    await facts.append(record(forked))
    at = world.now()
    last = plans.step_finished(told, 1, plans.StepResult("ok"), at)
    ended = plans.plan_finished(plans.apply(told, last), "completed", at)
    new = replace(folder, id=fork.new_resource, place=site.place, name="fork", created_at=at)
    done = plans.PlanCommit(
        plan.id, by, at, begin, (plans.CreatedResource(new, "rw", state.id),),
        forked=plans.forked(begin, {0: state.external}),
    )  # fmt: skip
    await facts.commit([record(last), record(ended)], done)


async def _tell_attempt(tree: Tree, box: Resource, state: Snapshot) -> None:
    world, facts = tree.revisions.world, tree.plans.facts
    step = RestoreResource(
        StepTarget(box.id, box.kind, box.place), state.id, state.external, supported=False
    )
    plan = Plan(PlanId(world.new_id()), "restore", "here", "human:ana", (step,))
    await facts.begin(record(plans.plan_started(plan, world.now())))
    seen = plans.StepResult("unsupported", untouched=True)
    fact = plans.step_finished(plans.PlanState(plan), 0, seen, world.now())
    said: dict[str, Json] = {"snapshot_ref": state.id, "outcome": "unsupported"}
    await facts.append(record(fact), notes=[plans.Note(box.id, "snapshot.restore_attempted", said)])


async def _resource(
    tree: Tree, kind: str, place: str, capabilities: frozenset[Capability]
) -> Resource:
    world = tree.revisions.world
    new = Resource(
        ResourceId(world.new_id()), kind, "here", place, place, capabilities,
        "fork" not in capabilities, world.now(),
    )  # fmt: skip
    return await tree.resources.ledger.ensure(new, by="human:ana")


async def _state(tree: Tree, resource: Resource, word: str) -> Snapshot:
    world = tree.revisions.world
    external = ExtRef("told", digest_bytes(word.encode()))
    state = Snapshot(
        SnapshotId(world.new_id()), resource.id, "told/1", external, len(word), world.now()
    )
    return await tree.resources.ledger.keep(state, by="human:ana")


def _fact(
    tree: Tree,
    run: RunId,
    seq: int,
    kind: str,
    said: Message | None = None,
    data: dict[str, Json] | None = None,
    correlation: str | None = None,
) -> RunEvent:
    at = tree.revisions.world.now()
    return RunEvent.of(Event(run, seq, kind, at, data or {}, correlation_id=correlation), said)


async def _tell_programs(tree: Tree, copy: int) -> None:
    programs = tree.programs
    await programs.create("provider", f"gate-{copy}", {"provider_type": "toy", "key": "${KEY}"})
    await programs.move(f"gate-{copy}", "published")
    backend: dict[str, Json] = {"model_id": "opus", "provider": f"@(gate-{copy})"}
    await programs.create("model", f"fast-{copy}", backend, visibility="private")
    await programs.invite(f"fast-{copy}", "bob")
    await programs.configure(f"fast-{copy}", {"temperature": 0.5})
    agent: dict[str, Json] = {"default_model": f"@(fast-{copy})"}
    await programs.create("agent", f"agent-{copy}", agent)
    work: dict[str, Json] = {"title": "Work", "assignee": f"@(agent-{copy})"}
    await programs.create("task", f"task-{copy}", work)
    await programs.invoke(f"task-{copy}", {"action": "start"})
    model = await programs.get(f"fast-{copy}")
    at = tree.revisions.world.now()
    await tree.turns.marks.set_tag(model.id, "trusted", on=True, by=str(programs.by), at=at)


async def tell_conversation(tree: Tree, name: str) -> None:
    """Let people and agents talk: one is gone, one is told, one stays, and a post is erased."""
    assert isinstance(tree.ledger, Ledger), "the story is told on PostgreSQL"
    talk = replace(tree.conversations, engine=InlineEngine(tree.ledger.database.lend))
    await tree.programs.create("agent", f"{name}-bot", {})
    if await tree.programs.find("warden") is None:
        system = replace(tree.programs, by=Principal("system", "story"))
        await system.create("agent", "warden", {"system_agent_kind": "warden"})
    await talk.create(name, title="A talk", participants=["agent:warden", f"agent:{name}-bot"])
    for words in ("hello", f"@[Bot](agent:{name}-bot) what now?", "forget this"):
        await talk.post(name, words)
    await talk.erase(name, 3, reason="asked for")
    await talk.remove(name, f"agent:{name}-bot")
    await talk.fork(name, at=2, name=f"{name}-fork")
    await talk.post(f"{name}-fork", "on we go")
    await talk.create(f"{name}-open", participants=[f"agent:{name}-bot"], triage=True)
    for words in ("good morning", "who can look into the failed export?"):
        await talk.post(f"{name}-open", words)
