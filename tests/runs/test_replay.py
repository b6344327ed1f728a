"""Turns played again: the same one comes out of its journal, and for real a second beside it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import anyio
import pytest

from tests.workshop import Workshop, at_once
from turntree.core.canonical import Json
from turntree.core.errors import Conflict, Hint, InvalidOperation
from turntree.core.ids import RunId, TurnId
from turntree.core.message import ErasedMessage, Message, Text, ToolUse, assistant, user
from turntree.core.run import RunEvent
from turntree.core.value import value
from turntree.integrity.fsck import fsck
from turntree.ledger.store import Ledger
from turntree.runs.model_call import ModelCaller
from turntree.runs.replay import ReplayResult
from turntree.runs.request_builder import RequestBuilder
from turntree.runs.request_resolver import RequestResolver
from turntree.runs.rerun import query_of, rerun
from turntree.runs.runner import Runner
from turntree.runs.session_loop import SessionLoop
from turntree.runs.tool_calls import ToolCaller
from turntree.testing.fakes import Crash

pytestmark = pytest.mark.anyio


@pytest.fixture
async def stage(shop: Workshop) -> Workshop:
    """A workshop in which programs say who answers."""
    programs = shop.tree.programs
    await programs.create("provider", "script", {"provider_type": "scripted"})
    config: dict[str, Json] = {
        "model_id": "scripted-1",
        "provider": "@(script)",
        "temperature": 0.5,
    }
    await programs.create("model", "plain", config)
    return shop


def actor_on(stage: Workshop, worker: str = "w1") -> SessionLoop:
    ledger, tree = Ledger(stage.database), stage.tree
    pinning = RequestResolver(tree.programs, ledger, tree.turns.threads, [stage.tools])
    assembly = RequestBuilder(pinning, ledger, tree.turns.threads, lambda _: stage.provider)
    asking = ModelCaller(stage.hub, clock=lambda: 0.0, chance=lambda: 0.5, sleep=at_once)
    caller, judge = ToolCaller((stage.tools,)), stage.make_judge()
    runner = Runner(ledger, assembly, asking, caller, stage.hub, judge)
    now = stage.world.now
    return SessionLoop(worker, stage.inbox, stage.workers, ledger, runner, lambda _run, _seq: now())


async def take(stage: Workshop, text: str, **options: Any) -> RunId:
    posted = await stage.inbox.post(
        stage.session, user(text), by="human:ana", at=stage.world.now(), options=options
    )
    await actor_on(stage).handle(stage.session)
    return posted.run


async def play(stage: Workshop, run: RunId) -> ReplayResult:
    """Play a turn again; whoever would be asked or called for real is noticed."""
    asked, made = stage.provider.asked, len(stage.tools.made)
    played = await stage.tree.replays.replay(TurnId(run))
    assert (stage.provider.asked, len(stage.tools.made)) == (asked, made)
    return played


@pytest.mark.parametrize(
    "words",
    [
        "hello",
        "tool then tools risk",
        "wide long",
        "busy broken",
        "silence",
        "tools silence",
    ],
)
async def test_the_same_turn_comes_out_of_its_journal(stage: Workshop, words: str) -> None:
    await take(stage, "before")
    played = await play(stage, await take(stage, words))
    assert played.is_same
    assert played.prompts
    assert all(played.prompts)


async def test_results_come_in_the_order_in_which_they_came(stage: Workshop) -> None:
    second = anyio.Event()

    async def last_first(use: ToolUse) -> None:
        if use.call_id.endswith("-1"):
            second.set()
        else:
            await second.wait()
            await anyio.sleep(0.05)

    stage.tools.before = last_first
    run = await take(stage, "tools")
    stage.tools.before = never
    assert (await play(stage, run)).is_same


async def test_a_run_that_was_given_few_steps_ends_where_it_ended(stage: Workshop) -> None:
    assert (await play(stage, await take(stage, "tool tool tool", max_steps=2))).is_same


async def test_messages_that_were_folded_are_played_together(stage: Workshop) -> None:
    await stage.inbox.post(stage.session, user("one"), by="human:ana", at=stage.world.now())
    assert (await play(stage, await take(stage, "two", fold=True))).is_same


async def test_a_call_that_was_lost_in_a_crash_is_lost_again(stage: Workshop) -> None:
    async def die(use: ToolUse) -> None:
        raise Crash(use.call_id)

    stage.tools.before = die
    posted = await stage.inbox.post(
        stage.session, user("risk"), by="human:ana", at=stage.world.now()
    )
    with pytest.raises(Crash):
        await actor_on(stage).handle(stage.session)
    stage.tools.before = nothing
    await actor_on(stage, "w2").handle(stage.session)
    played = await play(stage, posted.run)
    assert played.is_same
    assert "interrupted" in str(played.turn.reply)


async def test_a_tool_that_was_not_offered_is_not_called(stage: Workshop) -> None:
    await stage.tree.programs.create("code", "append", {"language": "javascript", "source": "0"})
    await stage.tree.programs.create("agent", "atlas", {"tools": ["@(append)"]})
    run = await take(stage, "tool risk", agent="atlas")
    assert [call for _, call in stage.tools.made] == ["call-1-0"]
    refused = (await stage.turn(run)).turn.reply[1]
    assert "there is no tool 'nod'; there are: append" in str(refused)
    told = (await stage.tree.authority.audit(agent="atlas")).denied
    assert [(row.right, row.reason) for row in told] == [
        ("tool:nod", "the tool was not given to it")
    ]
    assert (await play(stage, run)).is_same


async def test_what_such_a_run_leaves_is_whole(stage: Workshop) -> None:
    await stage.tree.programs.create("agent", "atlas", {"system_prompt": "Be brief.", "tools": []})
    await take(stage, "tool risk", agent="atlas")
    await take(stage, "tools wide long")
    assert await fsck(stage.database) == []


async def test_a_turn_that_was_canceled_is_canceled_again(stage: Workshop) -> None:
    begun = anyio.Event()

    async def hang(use: ToolUse) -> None:
        if use.call_id.endswith("-1"):
            begun.set()
            await anyio.sleep_forever()

    stage.tools.before = hang
    posted = await stage.inbox.post(
        stage.session, user("tools"), by="human:ana", at=stage.world.now()
    )
    actor = actor_on(stage)
    async with anyio.create_task_group() as group:
        group.start_soon(actor.handle, stage.session)
        await begun.wait()
        await stage.runs(actor).cancel("main")
    played = await play(stage, posted.run)
    assert played.original.header.outcome == "canceled"
    assert played.is_same


async def test_replay_repeats_partial_reply(stage: Workshop) -> None:
    begun, heard = anyio.Event(), list[str]()

    async def hang(piece: str) -> None:
        if heard:
            begun.set()
            await anyio.sleep_forever()
        heard.append(piece)

    stage.provider.before_piece = hang
    posted = await stage.inbox.post(
        stage.session, user("unforgettable"), by="human:ana", at=stage.world.now()
    )
    actor = actor_on(stage)
    async with anyio.create_task_group() as group:
        group.start_soon(actor.handle, stage.session)
        await begun.wait()
        await stage.runs(actor).cancel("main")
    played = await play(stage, posted.run)
    assert played.original.reply
    assert played.is_same


async def test_a_journal_that_was_changed_gives_another_turn(stage: Workshop) -> None:
    run = await take(stage, "tool then")

    def fewer(facts: list[RunEvent]) -> list[RunEvent]:
        first = facts[0].event
        return [RunEvent(replace(first, data={**first.data, "max_steps": 1})), *facts[1:]]

    tampered = replace(stage.tree.replays, ledger=Doctored(stage.tree.ledger.database, fewer))
    played = await tampered.replay(TurnId(run))
    assert not played.is_same
    assert played.turn.header.outcome == "failed"


async def test_a_prompt_that_cannot_be_assembled_again_is_noticed(stage: Workshop) -> None:
    before = await take(stage, "secret")
    run = await take(stage, "hello")
    await stage.tree.turns.erase(before, 0, reason="asked for")
    played = await play(stage, run)
    assert played.is_same
    assert played.prompts == (False,)


async def test_what_was_erased_cannot_be_played(stage: Workshop) -> None:
    run = await take(stage, "hello")
    await stage.tree.turns.erase(run, 0, reason="asked for")
    with pytest.raises(InvalidOperation, match="is gone"):
        await play(stage, run)


async def test_what_was_taken_elsewhere_can_only_be_taken_again(stage: Workshop) -> None:
    placed = await stage.tree.turns.record("main", [user("hi")], [assistant("hello")])
    with pytest.raises(InvalidOperation, match="no events to replay") as refused:
        await stage.tree.replays.replay(placed.turn.id)
    assert refused.value.hint == Hint("turn.rerun", {"revision": placed.turn.id})


async def test_a_turn_is_taken_again_beside_itself(stage: Workshop) -> None:
    await take(stage, "before")
    await stage.tree.programs.configure("main", {"params": {"top_p": 0.5}})
    placed = await stage.turn(await take(stage, "tool then"))
    begun = await again(stage, placed.turn.id)
    other = await stage.turn(begun)
    assert other.parent == placed.parent
    assert timeless(other.turn.messages) == timeless(placed.turn.messages)
    assert other.turn.id != placed.turn.id
    assert other.turn.header.retry_of == placed.turn.id
    assert (await stage.tree.replays.replay(other.turn.id)).is_same
    request = (await stage.tree.contexts.read(other.turn.id)).calls[0].taped.request
    assert request["params"] == {"temperature": 0.5, "top_p": 0.5}
    # The first thread is where it was.
    assert (await stage.tree.sessions.get("main")).head == placed.turn.id


async def test_another_model_answers_the_same_query_with_its_own_parameters(
    stage: Workshop,
) -> None:
    placed = await stage.turn(await take(stage, "hello"))
    await stage.tree.programs.create(
        "model", "other", {"model_id": "scripted-2", "provider": "@(script)"}
    )
    other = await stage.turn(await again(stage, placed.turn.id, model="other"))
    assert other.parent is None
    assert other.turn.header.model == "scripted-2"
    request = (await stage.tree.contexts.read(other.turn.id)).calls[0].taped.request
    assert request["params"] == {}


async def test_where_no_model_was_asked_the_session_says_who_answers(stage: Workshop) -> None:
    programs = stage.tree.programs
    await programs.create("model", "other", {"model_id": "scripted-2", "provider": "@(script)"})
    await programs.create("agent", "atlas", {"system_prompt": "Be brief."})
    failed = await stage.turn(await take(stage, "hello", params={"seed": 7}))
    assert failed.turn.header.outcome == "failed", "nobody says which of the two answers"
    await programs.configure(
        "main",
        {"default_model": "@(other)", "owner": "@(atlas)", "params": {"top_p": 0.5, "seed": 1}},
    )
    answered = await stage.turn(await again(stage, failed.turn.id))
    assert (answered.turn.header.outcome, answered.turn.header.model) == ("completed", "scripted-2")
    calls = (await stage.tree.contexts.read(answered.turn.id)).calls
    request: Mapping[str, Any] = calls[0].taped.request
    assert request["params"] == {"top_p": 0.5, "seed": 7}
    assert request["versions"]["agent"]["address"] == "@(atlas)"
    named = await stage.turn(await again(stage, failed.turn.id, model="plain"))
    assert named.turn.header.model == "scripted-1"


async def test_a_name_that_is_taken_is_refused_and_a_free_one_is_found(stage: Workshop) -> None:
    placed = await stage.turn(await take(stage, "hello"))
    first, second = await again(stage, placed.turn.id), await again(stage, placed.turn.id)
    assert first != second
    with pytest.raises(Conflict):
        await again(stage, placed.turn.id, label="main")


async def test_what_was_erased_is_not_sent_again(stage: Workshop) -> None:
    said = [Message("system", (Text("be brief"),)), user("hi")]
    placed = await stage.tree.turns.record("main", said, [assistant("hello")])
    assert query_of(placed.turn) == said
    await stage.tree.turns.erase(placed.turn.id, 0, reason="asked for")
    with pytest.raises(InvalidOperation, match="erased"):
        query_of((await stage.turn(RunId(placed.turn.id))).turn)


async def test_several_messages_are_sent_again_one_by_one(stage: Workshop) -> None:
    said = [user("one"), user("two"), Message("user", (Text("three"),), "cron")]
    posted = await stage.runs().post("main", said)
    await actor_on(stage).handle(stage.session)
    first = (await stage.turn(posted.run)).turn
    assert timeless(first.query) == said
    second = (await stage.turn(await again(stage, first.id))).turn
    assert timeless(second.query) == said


def timeless(messages: Sequence[Message | ErasedMessage]) -> list[Message]:
    """Return messages without their times, which differ each time they are sent."""
    return [replace(one, at=None) for one in messages if isinstance(one, Message)]


async def again(
    stage: Workshop, turn: TurnId, *, model: str | None = None, label: str | None = None
) -> RunId:
    tree = stage.tree
    placed = await tree.turns.get(turn)
    begun = await rerun(
        stage.runs(), tree.sessions, tree.ledger, tree.programs, placed, label=label, model=model
    )
    await actor_on(stage).handle(begun.session.id)
    return begun.posted.run


async def nothing(use: ToolUse) -> None:
    del use


async def never(use: ToolUse) -> None:
    raise AssertionError(f"{use.call_id} was made")


@value
class Doctored(Ledger):
    """A ledger whose journals were tampered with."""

    change: Callable[[list[RunEvent]], list[RunEvent]]

    async def facts(self, stream: str, *, after: int = 0) -> list[RunEvent]:
        return self.change(await Ledger.facts(self, stream, after=after))
