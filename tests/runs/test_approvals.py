"""Approvals: a call is made once, only as it was allowed, and only by the people who are asked."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.workshop import Workshop, ask_always
from turntree.api import Tree
from turntree.auth.execution_context import ExecutionContext
from turntree.core.canonical import canonical, digest_bytes
from turntree.core.errors import InvalidOperation, NotFound, PermissionDenied
from turntree.core.ids import RunId
from turntree.core.message import user
from turntree.core.principal import Principal
from turntree.core.run import Run
from turntree.ledger.store import Ledger
from turntree.policy.approval import (
    ForeignCall,
    find_request,
    read_duration,
)
from turntree.runs.approving.approval_store import ApprovalStore
from turntree.runs.approving.approval_sweep import ApprovalSweep
from turntree.runs.attempt import Attempt, Draft

pytestmark = pytest.mark.anyio
ANA = Principal("human", "ana")
BOB = Principal("human", "bob")
DAY_MS = 24 * 60 * 60 * 1000


def acting(shop: Workshop, principal: Principal) -> Tree:
    """Return the workspace as a principal sees it."""
    if principal.on_behalf_of is None:
        context = ExecutionContext.begin(principal)
    else:
        begun = ExecutionContext.begin(principal.on_behalf_of)
        context = begun.delegate(Principal(principal.kind, principal.id), begun.rights)
    return shop.tree.act_as(context)


async def park(shop: Workshop, answerers: Sequence[str] = (), text: str = "tools") -> RunId:
    """Return a run whose calls wait for a person, as the judge leaves it."""

    shop.policy = ask_always(*answerers)
    posted = await shop.inbox.post(
        shop.session, user(text), by="human:ana", at=shop.world.now(), options={}
    )
    await shop.actor().handle(shop.session)
    return posted.run


async def start_call(
    shop: Workshop, run: RunId, call_id: str, args: Mapping[str, Any], approval: str | None
) -> None:
    """Record the intent to make a call, as the runner does."""
    row = await shop.database.fetch_one(
        b"SELECT epoch, (SELECT max(seq) + 1 FROM turntree.events e WHERE e.stream_id = r.id)"
        b" FROM turntree.runs r WHERE r.id = %(run)b::uuid", run=run,
    )  # fmt: skip
    assert row is not None
    ledger = Ledger(shop.database)
    facts = await ledger.facts(run)
    attempt = Attempt(
        shop.inbox, ledger, lambda _run, _seq: shop.world.now(), row[0], [*facts],
        Run.replay(run, facts),
    )  # fmt: skip
    tool = next(use.tool for said in attempt.run.reply for use in said.tool_uses)
    data: dict[str, Any] = {
        "call_id": call_id, "tool": tool, "server": "worker",
        "args_digest": digest_bytes(canonical(dict(args))),
    }  # fmt: skip
    if approval is not None:
        data["approval"] = approval
    await attempt.append(Draft("tool_call.started", data))


async def test_approval_of_a_call_waits_with_its_arguments(shop: Workshop) -> None:
    run = await park(shop)
    found = await acting(shop, ANA).approvals.list_waiting(mine=True)
    assert [(one.state, one.run, one.label, one.answerers) for one in found] == [
        ("pending", run, "main", ("human:ana",))
    ] * len(found)
    assert len(found) == 2
    for one in found:
        assert one.args is not None
        assert digest_bytes(canonical(dict(one.args))) == one.args_digest
        assert one.requested_by.startswith("agent:")
    notices = await acting(shop, ANA).inbox.list_page()
    assert {one.kind for one in notices} == {"approval"}
    assert len(notices) == 2


async def test_approval_decided_continues_the_run_after_the_last_one(shop: Workshop) -> None:
    run = await park(shop)
    tree = acting(shop, ANA)
    first, second = await tree.approvals.list_waiting()
    decided = await tree.approvals.approve(first.id, note="fine")
    assert (decided.state, decided.decided_by, decided.note) == ("approved", "human:ana", "fine")
    assert (await shop.runs().status(run)) == "parked"
    await tree.approvals.reject(second.id)
    assert (await shop.kinds(run))[-1] == "run.unparked"
    assert await tree.inbox.count_unread() == 0
    events = [fact.event for fact in await Ledger(shop.database).facts(RunId(first.id))]
    assert [(one.kind, one.data["decision"], one.data["by"]) for one in events] == [
        ("approval.decided", "approved", "human:ana")
    ]


async def test_approval_answered_twice_is_refused(shop: Workshop) -> None:
    await park(shop)
    tree = acting(shop, ANA)
    first, *_ = await tree.approvals.list_waiting()
    await tree.approvals.approve(first.id)
    for verb in (tree.approvals.approve, tree.approvals.reject):
        with pytest.raises(InvalidOperation, match="was answered already: approved by human:ana"):
            await verb(first.id)


@pytest.mark.parametrize(
    "principal",
    [
        BOB,
        Principal("agent", "atlas", ANA),
        Principal("session", "x", ANA),
        Principal("system", "cron"),
    ],
    ids=str,
)
async def test_approval_answered_by_another_principal_is_refused(
    shop: Workshop, principal: Principal
) -> None:
    await park(shop)
    first, *_ = await acting(shop, ANA).approvals.list_waiting()
    with pytest.raises(PermissionDenied):
        await acting(shop, principal).approvals.approve(first.id)
    assert (await acting(shop, ANA).approvals.get(first.id)).state == "pending"


async def test_approval_that_a_policy_asks_of_a_person_is_theirs_alone(shop: Workshop) -> None:
    await park(shop, ["human:bob"])
    first, *_ = await acting(shop, BOB).approvals.list_waiting(mine=True)
    with pytest.raises(PermissionDenied, match="human:ana may not answer: human:bob may"):
        await acting(shop, ANA).approvals.approve(first.id)
    assert (await acting(shop, BOB).approvals.approve(first.id)).decided_by == "human:bob"


async def test_call_starts_once_and_only_as_it_was_approved(shop: Workshop) -> None:
    run = await park(shop)
    tree = acting(shop, ANA)
    first, second = await tree.approvals.list_waiting()
    assert first.args is not None
    assert first.call_id is not None
    assert second.call_id is not None
    with pytest.raises(InvalidOperation, match="is pending"):
        await start_call(shop, run, first.call_id, first.args, first.id)
    with pytest.raises(InvalidOperation, match="was not named"):
        await start_call(shop, run, first.call_id, first.args, None)
    await tree.approvals.approve(first.id)
    await tree.approvals.reject(second.id)
    with pytest.raises(InvalidOperation, match="is of other arguments"):
        await start_call(shop, run, first.call_id, {"other": 1}, first.id)
    with pytest.raises(InvalidOperation, match="is of another call"):
        await start_call(shop, run, second.call_id, first.args, first.id)
    with pytest.raises(InvalidOperation, match="is rejected"):
        await start_call(shop, run, second.call_id, second.args or {}, second.id)
    await start_call(shop, run, first.call_id, first.args, first.id)
    assert (await tree.approvals.get(first.id)).state == "used"
    with pytest.raises(InvalidOperation, match="was used already"):
        await start_call(shop, run, first.call_id, first.args, first.id)


async def test_call_that_was_edited_starts_with_the_edited_arguments(shop: Workshop) -> None:
    run = await park(shop)
    tree = acting(shop, ANA)
    first, second = await tree.approvals.list_waiting()
    edited = await tree.approvals.edit(first.id, {"path": "b"})
    assert edited.allowed_args == {"path": "b"}
    assert edited.allowed_digest == digest_bytes(canonical({"path": "b"}))
    await tree.approvals.reject(second.id)
    with pytest.raises(InvalidOperation, match="is of other arguments"):
        await start_call(shop, run, str(first.call_id), first.args or {}, first.id)
    await start_call(shop, run, str(first.call_id), {"path": "b"}, first.id)


async def test_call_approved_and_expired_does_not_start(shop: Workshop) -> None:
    run = await park(shop)
    tree = acting(shop, ANA)
    first, second = await tree.approvals.list_waiting()
    await tree.approvals.approve(first.id)
    await tree.approvals.reject(second.id)
    shop.world.ms += int(8 * DAY_MS)
    assert (await tree.approvals.get(first.id)).verdict_at(shop.world.now()) == "expired"
    with pytest.raises(InvalidOperation, match="has expired"):
        await start_call(shop, run, str(first.call_id), first.args or {}, first.id)


def sweep_of(shop: Workshop) -> ApprovalSweep:
    """Return what a worker looks after approvals with."""
    store = ApprovalStore(shop.database, shop.engine)
    return ApprovalSweep(store, shop.world, lambda _: store)


async def test_sweep_reminds_escalates_and_expires(shop: Workshop) -> None:
    run = await park(shop)
    tree = acting(shop, ANA)
    sweep = sweep_of(shop)
    assert await sweep.look() == 0
    shop.world.ms += int(4 * DAY_MS)
    assert await sweep.look() == 2
    assert await sweep.look() == 0
    assert await tree.inbox.count_unread() == 4
    shop.world.ms += int(2.5 * DAY_MS)
    assert await sweep.look() == 2
    assert await tree.inbox.count_unread() == 6
    shop.world.ms += int(1 * DAY_MS)
    assert await sweep.look() == 2
    assert [one.state for one in await tree.approvals.list_all()] == ["expired"] * 2
    assert (await shop.kinds(run))[-1] == "run.unparked"
    assert await tree.inbox.count_unread() == 0
    with pytest.raises(InvalidOperation, match="was answered already: expired"):
        await tree.approvals.approve((await tree.approvals.list_all())[0].id)


async def test_run_canceled_cancels_what_waits_and_forgets_the_arguments(shop: Workshop) -> None:
    run = await park(shop)
    tree = acting(shop, ANA)
    await shop.runs().cancel(str(run))
    first, *_ = await tree.approvals.list_all()
    with pytest.raises(InvalidOperation, match="was canceled"):
        await tree.approvals.approve(first.id)
    await shop.actor().handle(shop.session)
    found = await tree.approvals.list_all()
    assert [(one.state, one.args) for one in found] == [("canceled", None)] * 2


async def test_reject_waiting_ends_the_run_and_keeps_the_next_message(shop: Workshop) -> None:
    run = await park(shop)
    tree = acting(shop, ANA)
    later = await shop.inbox.post(
        shop.session, user("instead"), by="human:ana", at=shop.world.now(), options={}
    )
    assert await shop.runs().status(later.run) == "waiting"
    assert await tree.approvals.reject_waiting("main", note="no") == 2
    await shop.actor().handle(shop.session)
    assert (await shop.turn(run)).turn.header.outcome == "canceled"
    assert (await shop.turn(later.run)).turn.header.outcome == "completed"
    assert await tree.approvals.reject_waiting("main") == 0


async def test_foreign_call_is_asked_once_and_used_once(shop: Workshop) -> None:
    tree = acting(shop, ANA)
    call = ForeignCall("claude-code", "Bash", {"command": "rm x"}, key="s1:t1", reason="it deletes")
    asked = await tree.approvals.request_foreign(call)
    assert (asked.kind, asked.answerers, asked.args) == (
        "foreign_call", ("human:ana",), {"command": "rm x"}
    )  # fmt: skip
    assert (await tree.approvals.request_foreign(call)).id == asked.id
    assert not await tree.approvals.use_foreign(asked.id, asked.args_digest)
    with pytest.raises(NotFound):
        await acting(shop, BOB).approvals.get(asked.id)
    await tree.approvals.approve(asked.id)
    assert not await tree.approvals.use_foreign(asked.id, digest_bytes(b"{}"))
    assert await tree.approvals.use_foreign(asked.id, asked.args_digest)
    assert not await tree.approvals.use_foreign(asked.id, asked.args_digest)
    assert (await tree.approvals.get(asked.id)).args is None
    assert (await tree.approvals.request_foreign(call)).id != asked.id
    kinds = [fact.event.kind for fact in await Ledger(shop.database).facts(RunId(asked.id))]
    assert kinds == ["approval.requested", "approval.decided"]


async def test_approvals_of_a_private_session_are_hidden_from_others(shop: Workshop) -> None:
    await park(shop)
    tree = acting(shop, ANA)
    await tree.programs.set_visibility("main", "private")
    assert await acting(shop, BOB).approvals.list_waiting() == []
    assert len(await tree.approvals.list_waiting()) == 2


async def test_events_of_another_persons_request_are_hidden(shop: Workshop) -> None:
    asked = await shop.tree.approvals.request_foreign(
        ForeignCall("codex", "shell", {"command": "ls"}, "it leaves the folder")
    )
    await shop.tree.approvals.reject(asked.id, note="not here")
    seen = {who.id: await _list_events(acting(shop, who), asked.id) for who in (ANA, BOB)}
    assert seen == {"ana": ["approval.requested", "approval.decided"], "bob": []}


async def test_foreign_request_named_like_a_run_is_refused(shop: Workshop) -> None:
    run = await park(shop)
    with pytest.raises(InvalidOperation, match="taken already"):
        await acting(shop, BOB).approvals.request_foreign(
            ForeignCall("codex", "shell", {"command": "ls"}, "x", id=str(run))
        )


async def _list_events(tree: Tree, stream: str) -> list[str]:
    """Return the kinds of the events of a stream that a principal can read."""
    rows = await tree.approvals.store.database.fetch(
        b"SELECT kind FROM turntree.events WHERE stream_id = %(stream)b::uuid ORDER BY seq",
        stream=stream,
    )
    return [str(kind) for (kind,) in rows]


async def test_find_names_a_request_by_either_end_of_its_id(shop: Workshop) -> None:
    await park(shop)
    waiting = await acting(shop, ANA).approvals.list_waiting()
    assert find_request(waiting[1].id[-6:], waiting) == waiting[1]
    assert find_request(None, waiting[:1]) == waiting[0]
    with pytest.raises(NotFound, match="2 requests wait"):
        find_request(None, waiting)
    with pytest.raises(NotFound, match="nothing waits"):
        find_request(None, [])


@pytest.mark.parametrize("text", ["", "0d", "1s", "400d", "7 d"])
def test_duration_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidOperation, match="is not a duration"):
        read_duration(text)
