"""Runs, driven: every effect is a fact before the next begins, and a crash changes nothing."""

from typing import Any

import anyio
import pytest

from tests.workshop import Workshop, ask_always
from turntree.core.canonical import digest_bytes
from turntree.core.ids import RunId, TurnId
from turntree.core.message import (
    Message,
    ObjectRef,
    ToolResult,
    ToolUse,
    is_partial,
    line_of,
    tool,
    user,
)
from turntree.core.principal import Principal
from turntree.ledger.store import Ledger
from turntree.ledger.thread_store import ThreadStore
from turntree.runs.model_call import PromptInput
from turntree.runs.session_loop import FAILURES_MAX
from turntree.testing.fakes import Crash
from turntree.testing.scripted.provider import PlainRequest

pytestmark = pytest.mark.anyio


async def post(shop: Workshop, text: str, **options: Any) -> RunId:
    posted = await shop.inbox.post(
        shop.session, user(text), by="human:ana", at=shop.world.now(), options=options
    )
    return posted.run


async def results(shop: Workshop, run: RunId) -> list[tuple[str | None, str | None]]:
    turn = (await shop.turn(run)).turn
    return [
        (part.call_id, part.status)
        for said in turn.reply
        if isinstance(said, Message)
        for part in said.tool_results
    ]


async def test_a_message_becomes_a_turn(shop: Workshop) -> None:
    run = await post(shop, "hello")
    await shop.actor().handle(shop.session)
    placed = await shop.turn(run)
    assert [said.text for said in placed.turn.messages] == ["hello", "hello!"]
    assert (placed.turn.header.model, placed.turn.header.provider) == ("scripted-1", "scripted")
    assert placed.turn.header.by == Principal("agent", "assistant", Principal("human", "ana"))
    assert await shop.kinds(run) == [
        "run.started", "model_call.started", "model_call.finished", "run.finished",
    ]  # fmt: skip
    assert (await shop.tree.sessions.get("main")).head == TurnId(run)


async def test_tools_are_called_at_once_with_their_intents_first(shop: Workshop) -> None:
    both = anyio.Event()
    begun: list[str] = []

    async def meet(use: ToolUse) -> None:
        begun.append(use.call_id)
        if len(begun) == 2:
            both.set()
        with anyio.fail_after(30):
            await both.wait()

    shop.tools.before = meet
    run = await post(shop, "tools")
    await shop.actor().handle(shop.session)
    assert await shop.kinds(run) == [
        "run.started", "model_call.started", "model_call.finished", "tool_call.judged",
        "tool_call.judged", "tool_call.started", "tool_call.started", "tool_call.finished",
        "tool_call.finished",
        "model_call.started", "model_call.finished", "run.finished",
    ]  # fmt: skip
    assert [status for _, status in await results(shop, run)] == ["ok", "ok"]


async def test_messages_are_answered_in_the_order_they_were_sent(shop: Workshop) -> None:
    runs = [await post(shop, f"word{number}") for number in range(5)]
    await shop.actor().handle(shop.session)
    thread = await ThreadStore(shop.database).list_range(TurnId(runs[-1]))
    assert [RunId(placed.turn.id) for placed in thread] == runs


async def test_messages_that_fold_become_one_turn(shop: Workshop) -> None:
    first = await post(shop, "one")
    assert await post(shop, "two", fold=True) == first
    await shop.actor().handle(shop.session)
    turn = (await shop.turn(first)).turn
    assert [said.text for said in turn.query] == ["one", "two"]


async def test_an_answer_names_the_request_it_belongs_to(shop: Workshop) -> None:
    run = await post(shop, "tool")
    await shop.actor().handle(shop.session)
    facts = await Ledger(shop.database).facts(run)
    asked = [fact.event.correlation_id for fact in facts if fact.event.kind == "model_call.started"]
    told = [fact.event.correlation_id for fact in facts if fact.event.kind == "model_call.finished"]
    assert asked == told
    assert len(set(asked)) == 2


async def test_a_failed_attempt_is_repeated_and_leaves_no_words(shop: Workshop) -> None:
    run = await post(shop, "broken")
    await shop.actor().handle(shop.session)
    facts = await Ledger(shop.database).facts(run)
    assert [fact.event.data.get("attempts") for fact in facts] == [None, None, 2, None]
    assert (await shop.turn(run)).turn.messages[-1].text == "broken!"


async def test_a_worker_says_in_one_line_what_failed(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    run = await post(shop, "silence")
    await shop.actor().handle(shop.session)
    (line,) = [one.getMessage() for one in caplog.records if "failed" in one.getMessage()]
    assert f"run {run} failed: provider_" in line
    assert "\n" not in line


async def test_a_provider_that_refuses_fails_the_run_and_moves_no_session(shop: Workshop) -> None:
    run = await post(shop, "silence")
    await shop.actor().handle(shop.session)
    assert (await shop.turn(run)).turn.header.outcome == "failed"
    assert await shop.kinds(run) == [
        "run.started",
        "model_call.started",
        "run.failed",
        "run.finished",
    ]
    assert (await shop.tree.sessions.get("main")).head is None


async def test_a_failed_run_that_had_called_a_tool_is_remembered(shop: Workshop) -> None:
    run = await post(shop, "tool silence")
    await shop.actor().handle(shop.session)
    assert (await shop.turn(run)).turn.header.outcome == "failed"
    assert (await shop.tree.sessions.get("main")).head == TurnId(run)


async def test_a_run_ends_after_the_steps_it_was_given(shop: Workshop) -> None:
    run = await post(shop, "tool tool tool", max_steps=2)
    await shop.actor().handle(shop.session)
    assert (await shop.turn(run)).turn.header.outcome == "failed"
    assert [status for _, status in await results(shop, run)] == ["ok", "interrupted"]


async def test_large_parts_are_lifted_and_calls_still_get_their_arguments(shop: Workshop) -> None:
    seen: list[int] = []

    async def look(use: ToolUse) -> None:
        assert isinstance(use.args, dict)
        seen.append(len(str(use.args["words"])))

    shop.tools.before = look
    run = await post(shop, "wide long")
    await shop.actor().handle(shop.session)
    turn = (await shop.turn(run)).turn
    lifted = [
        part.of for said in turn.messages for part in said.parts if isinstance(part, ObjectRef)
    ]
    assert lifted == ["tool_use", "text"]
    assert seen == [20_000]


async def test_a_lost_call_that_may_be_repeated_is_made_again(shop: Workshop) -> None:
    run = await post(shop, "tool")
    await crash_in_tool(shop)
    await shop.actor("w2").handle(shop.session)
    assert [status for _, status in await results(shop, run)] == ["ok"]
    assert "run.interrupted" not in await shop.kinds(run)


async def test_a_call_during_which_two_workers_stopped_is_not_made_again(shop: Workshop) -> None:
    run = await post(shop, "tool")
    await crash_in_tool(shop)
    await crash_in_tool(shop, "w2")
    await shop.actor("w3").handle(shop.session)
    assert shop.tools.made == []
    assert await results(shop, run) == [("call-0-0", "interrupted")]
    turn = (await shop.turn(run)).turn
    assert "2 workers stopped during this call" in str(turn.reply)
    assert turn.header.outcome == "completed"


async def test_a_lost_call_that_may_not_be_repeated_ends_as_interrupted(shop: Workshop) -> None:
    run = await post(shop, "risk")
    await crash_in_tool(shop)
    await shop.actor("w2").handle(shop.session)
    assert await results(shop, run) == [("call-0-0", "interrupted")]
    assert shop.tools.made == []
    facts = await Ledger(shop.database).facts(run)
    (told,) = [fact.event.data for fact in facts if fact.event.kind == "run.interrupted"]
    assert (told["reason"], told["calls"]) == ("crash", ["call-0-0"])
    assert (await shop.turn(run)).turn.header.outcome == "completed"


async def crash_in_tool(shop: Workshop, worker: str = "w1") -> None:
    async def die(use: ToolUse) -> None:
        del use
        raise Crash

    before, shop.tools.before = shop.tools.before, die
    with pytest.raises(Crash):
        await shop.actor(worker).handle(shop.session)
    shop.tools.before = before


async def test_a_request_that_was_never_answered_is_sent_again_as_it_was(shop: Workshop) -> None:
    async def die(piece: str) -> None:
        del piece
        raise Crash

    run = await post(shop, "hello")
    shop.provider.before_piece = die
    with pytest.raises(Crash):
        await shop.actor("w1").handle(shop.session)
    shop.provider.before_piece = pass_by
    await shop.actor("w2").handle(shop.session)
    assert (await shop.kinds(run)).count("model_call.started") == 1


async def pass_by(piece: str) -> None:
    del piece


async def test_a_tool_that_takes_too_long_ends_as_a_timeout(shop: Workshop) -> None:
    async def dawdle(use: ToolUse) -> None:
        del use
        await anyio.sleep_forever()

    shop.tools.before, shop.tools.timeout_s = dawdle, 0.05
    run = await post(shop, "tool")
    await shop.actor().handle(shop.session)
    assert [status for _, status in await results(shop, run)] == ["timeout"]


async def test_a_tool_that_raises_tells_the_model(shop: Workshop) -> None:
    async def stumble(use: ToolUse) -> None:
        raise ZeroDivisionError(use.tool)

    shop.tools.before = stumble
    run = await post(shop, "tool")
    await shop.actor().handle(shop.session)
    turn = (await shop.turn(run)).turn
    (said,) = [said for said in turn.reply if said.role == "tool"]
    assert said.parts == tool(ToolResult("call-0-0", "error", "ZeroDivisionError: nod")).parts
    (ended,) = [
        fact.event.data
        for fact in await Ledger(shop.database).facts(run)
        if fact.event.kind == "tool_call.finished"
    ]
    assert ended["error"] == {
        "code": "failed", "message": "ZeroDivisionError: nod", "details": {"tool": "nod"},
    }  # fmt: skip
    assert turn.header.outcome == "completed"


async def test_parked_run_keeps_no_worker_waiting(shop: Workshop) -> None:
    shop.policy = ask_always()
    run = await post(shop, "tool")
    await shop.actor("w1").handle(shop.session)
    (opened,) = await shop.workers.list_open()
    assert (opened.status, opened.parked_reason) == ("parked", "approval")
    # To unpark a run approves nothing: it parks again, and its call was not made.
    assert await shop.inbox.unpark(run, by="human:ana", at=shop.world.now(), data={"yes": True})
    assert not await shop.inbox.unpark(run, by="human:ana", at=shop.world.now(), data={})
    await shop.actor("w2").handle(shop.session)
    (opened,) = await shop.workers.list_open()
    assert (opened.status, shop.tools.made) == ("parked", [])
    (approval,) = (await shop.make_judge().approvals_of(run)).values()
    await shop.tree.approvals.approve(approval.id)
    await shop.actor("w2").handle(shop.session)
    assert (await shop.turn(run)).turn.header.outcome == "completed"
    assert len(shop.tools.made) == 1


async def test_a_parked_run_can_be_canceled(shop: Workshop) -> None:
    shop.policy = ask_always()
    run = await post(shop, "tool")
    await shop.actor().handle(shop.session)
    assert await shop.inbox.cancel(shop.session, by="human:bo", at=shop.world.now()) == run
    await shop.actor().handle(shop.session)
    turn = (await shop.turn(run)).turn
    assert turn.header.outcome == "canceled"
    facts = await Ledger(shop.database).facts(run)
    (told,) = [fact.event.data for fact in facts if fact.event.kind == "run.interrupted"]
    assert told == {"reason": "canceled", "by": "human:bo"}
    # No tool had begun, so the session stays where it was.
    assert (await shop.tree.sessions.get("main")).head is None


async def test_cancellation_reaches_a_stream_in_flight(shop: Workshop) -> None:
    begun = anyio.Event()

    async def hang(piece: str) -> None:
        del piece
        begun.set()
        await anyio.sleep_forever()

    shop.provider.before_piece = hang
    run = await post(shop, "hello")
    actor = shop.actor()
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(actor.handle, shop.session)
            await begun.wait()
            assert await shop.runs(actor).cancel("main") == run
    assert (await shop.turn(run)).turn.header.outcome == "canceled"


async def test_what_was_said_before_a_cancellation_stays(shop: Workshop) -> None:
    run = await cancel_after(shop, "unforgettable", pieces=1)
    (said,) = (await shop.turn(run)).turn.reply
    assert isinstance(said, Message)
    assert is_partial(said)
    assert said.text
    assert "unforgettable".startswith(said.text)
    # It can be erased with the rest of the turn: the journal holds its digest only.
    told = (await Ledger(shop.database).facts(run))[2].event
    assert told.kind == "run.interrupted"
    assert told.data["message"] == digest_bytes(line_of(said))
    assert said.text not in str(told.data)


async def test_where_nothing_was_said_nothing_is_kept(shop: Workshop) -> None:
    run = await cancel_after(shop, "hello", pieces=0)
    assert (await shop.turn(run)).turn.reply == ()


async def cancel_after(shop: Workshop, text: str, *, pieces: int) -> RunId:
    """Cancel a run whose model has said so many pieces of its answer."""
    begun, heard = anyio.Event(), list[str]()

    async def hang(piece: str) -> None:
        if len(heard) == pieces:
            begun.set()
            await anyio.sleep_forever()
        heard.append(piece)

    shop.provider.before_piece = hang
    run = await post(shop, text)
    actor = shop.actor()
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(actor.handle, shop.session)
            await begun.wait()
            await shop.runs(actor).cancel("main")
    return run


async def test_what_is_discarded_moves_no_session_though_tools_had_run(shop: Workshop) -> None:
    for discard in (True, False):
        run = await post(shop, "tool hang")
        begun = anyio.Event()

        async def hang(piece: str, begun: anyio.Event = begun) -> None:
            if piece.startswith("hang"):
                begun.set()
                await anyio.sleep_forever()

        shop.provider.before_piece = hang
        actor = shop.actor()
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                group.start_soon(actor.handle, shop.session)
                await begun.wait()
                await shop.runs(actor).cancel("main", discard=discard)
        assert (await shop.turn(run)).turn.header.outcome == "canceled"
        assert (await shop.tree.sessions.get("main")).head == (None if discard else TurnId(run))


async def test_a_session_that_was_moved_meanwhile_keeps_its_place(shop: Workshop) -> None:
    first = await post(shop, "hello")
    await shop.actor().handle(shop.session)
    second = await post(shop, "again")
    await shop.actor().handle(shop.session)

    async def move(use: ToolUse) -> None:
        del use
        await shop.tree.sessions.rewind("main", TurnId(first))

    shop.tools.before = move
    third = await post(shop, "tool")
    await shop.actor().handle(shop.session)
    placed = await shop.turn(third)
    assert placed.parent == TurnId(second)
    assert placed.turn.header.outcome == "completed"
    assert (await shop.tree.sessions.get("main")).head == TurnId(first)


async def test_second_worker_of_a_session_gives_up(shop: Workshop) -> None:
    begun, go = anyio.Event(), anyio.Event()

    async def wait(piece: str) -> None:
        del piece
        if not begun.is_set():
            begun.set()
            await go.wait()

    shop.provider.before_piece = wait
    run = await post(shop, "hello")
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(shop.actor("w1").handle, shop.session)
            await begun.wait()
            await shop.actor("w2").handle(shop.session)
            go.set()
    assert await shop.kinds(run) == [
        "run.started", "model_call.started", "model_call.finished", "run.finished",
    ]  # fmt: skip


async def test_an_error_of_ours_is_tried_again_and_then_ends_the_run(shop: Workshop) -> None:
    tried = 0

    async def stumble(question: PromptInput) -> PlainRequest:
        nonlocal tried
        tried += 1
        raise ZeroDivisionError(question.run.id)

    actor = shop.actor()
    actor.runner = type(actor.runner)(
        actor.runner.ledger, stumble, actor.runner.asking, actor.runner.calling, shop.hub
    )
    run = await post(shop, "hello")
    await actor.handle(shop.session)
    assert tried == FAILURES_MAX
    assert (await shop.turn(run)).turn.header.outcome == "failed"
    facts = await Ledger(shop.database).facts(run)
    (told,) = [fact.event.data for fact in facts if fact.event.kind == "run.failed"]
    assert told["reason"] == "error"
    assert "ZeroDivisionError" in str(told["error"])
    # The session is not bricked: the next message is answered.
    after = await post(shop, "hello")
    await shop.actor().handle(shop.session)
    assert (await shop.turn(after)).turn.header.outcome == "completed"
