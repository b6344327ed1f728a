"""``send``, ``tail`` and ``cancel`` over a server."""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any, Final

import click

from turntree.cli.client.opened import OpenServer, on_server
from turntree.cli.command import Terminal
from turntree.cli.common.listen import Hear
from turntree.cli.common.reply import (
    ReplyResult,
    check_answer,
    nothing,
    streaming,
    tell_answer,
)
from turntree.cli.common.verdicts import require_person
from turntree.cli.output.dialogue import draw_talk
from turntree.cli.output.stream_printer import turn_document
from turntree.cli.output.text import clean, counted
from turntree.cli.talk.send import INSTEAD, note_rejected
from turntree.client.runs import MessageOptions, RunNews
from turntree.client.sealed import read_sealed
from turntree.core.errors import NotFound
from turntree.core.ids import RunId, find_long_id
from turntree.core.message import assistant, user
from turntree.core.revision import find_label
from turntree.runs.follow import (
    Heard,
    ModelReplied,
    RunNotice,
    RunStarted,
    TextChunk,
    TextDiscarded,
    TurnSealed,
)
from turntree.wire.runs import ChunkDocument, QueuedRun, StepDocument
from turntree.wire.sealed import SealedTurnDocument

POLL_S: Final = 1.0
STDIN: Final = "-"


def send(
    terminal: Terminal,
    *,
    session: str | None,
    words: tuple[str, ...],
    target: str | None,
    key: str | None,
    wait: bool,
    stream: bool,
    no_worker: bool,
    instead: bool,
    **asked: Any,
) -> None:
    """Send a message and print the reply; a worker beside the server answers it."""
    del no_worker  # This process never answers.
    said = [*([] if session is None else [session]), *words]
    if target is None:
        target, *said = said or [""]
    if len(said) != 1 or not target:
        raise click.UsageError("name a target and one message, in quotes if it has several words")
    text = sys.stdin.read() if said[0] == STDIN else said[0]
    if not text.strip():
        raise click.UsageError("the message is empty")
    options: MessageOptions = {}
    for name, given in asked.items():
        if given:
            options[name] = given  # type: ignore[literal-required]
    hear = streaming(terminal) if stream else nothing

    async def act(opened: OpenServer) -> tuple[QueuedRun, ReplyResult | None]:
        name = opened.name(target)
        is_label = find_label(name) is not None
        begins = is_label and await opened.find_session(name) is None
        if instead:
            require_person()
            count = await opened.client.approvals.reject_waiting(name, note=INSTEAD)
            note_rejected(terminal, count)
        queued = await opened.client.runs.post(name, text, key=key, **options)
        if begins:
            label = clean(queued.session)
            terminal.note(f"{label} begins; undo with: turntree session archive {queued.session}")
        if queued.redacted:
            what = counted(queued.redacted, "secret key")
            terminal.note(f"{what} redacted before the message was stored")
        return queued, await follow(opened, queued.run, hear) if wait else None

    queued, answered = on_server(terminal, act)
    went = {"session": queued.session, "agent": queued.agent}
    if answered is None:
        done = "was taken in before" if queued.repeated else "is taken in"
        terminal.tell(
            f"the message to {clean(queued.session)} {done}; its turn will be {queued.run}",
            {**went, "run": queued.run, "repeated": queued.repeated},
            # A message that joined another cannot be canceled alone.
            undo=None if queued.repeated or "fold" in options else f"turntree cancel {queued.run}",
            then=(f"follow it with: turntree tail -f {queued.run}",),
        )
    elif stream:
        check_answer(answered)
    else:
        tell_answer(terminal, answered, went)


async def follow(opened: OpenServer, run: str, hear: Hear) -> ReplyResult:
    """Report a run until its turn is sealed, and return how it ended."""
    async with aclosing(opened.client.runs.follow(run)) as news:
        async for one in news:
            for heard in _hear(run, one):
                hear(heard)
    (document,) = await opened.client.turns.list_sealed([run])
    placed = read_sealed(document)
    hear(TurnSealed(placed, ()))
    return ReplyResult(placed.turn, document.reason or "")


def _hear(run: str, one: RunNews) -> Sequence[Heard]:
    """Return what a person is shown of a message of a stream.

    A stream says which tools are called only while it is written: what they did is in the turn.
    """
    match one.news:
        case ChunkDocument(kind="restart", seq=seq):
            return [TextDiscarded(seq)]
        case ChunkDocument(kind=("text" | "reasoning" | "tool") as kind, seq=seq, text=text):
            return [TextChunk(seq, kind, text, one.news.tool)]
        case StepDocument(kind="run.started" | "message.appended", text=text) if text:
            return [RunStarted(RunId(run), (user(text),))]
        case StepDocument(kind="model_call.finished", seq=seq, text=text) if text:
            return [ModelReplied(seq, assistant(text), None)]
        case StepDocument(kind="run.parked", reason=reason):
            return [RunNotice("parked", reason)]
        case StepDocument(kind="run.unparked", reason=reason):
            return [RunNotice("unparked", reason)]
        case StepDocument(kind="run.failed", reason=reason):
            return [RunNotice("failed", reason)]
        case _:
            return []


def cancel(terminal: Terminal, *, what: str, discard: bool, wait: bool) -> None:
    """Cancel the running turn of a session, or a single run."""

    async def act(opened: OpenServer) -> tuple[str | None, str | None, ReplyResult | None]:
        label, run = None, find_long_id(what)
        if run is None:
            label = (await opened.client.sessions.get(opened.name(what))).label
            runs = (await opened.client.runs.list_open(label, limit=1)).runs
            run = runs[0].run if runs else None
        canceled = None if run is None else await opened.client.runs.cancel(run, discard=discard)
        if canceled is None or not wait:
            return label, canceled, None
        status = await opened.client.runs.status(canceled)
        if status == "waiting":
            return label, canceled, None
        return label, canceled, await follow(opened, canceled, nothing)

    label, run, answered = on_server(terminal, act)
    document: dict[str, Any] = {"session": label, "run": run}
    if run is None:
        over = f"nothing is being answered in {clean(label)}" if label else f"{what} is over"
        terminal.tell(over, document, undo=None)
    elif answered is None:
        terminal.tell(f"{run} was asked to end", document, undo=None)
    else:
        turn = answered.turn
        told = f"the turn {run} is {turn.header.outcome}"
        terminal.tell(told, {**document, **turn_document(turn)}, undo=None)


def tail(
    terminal: Terminal, *, what: str, follows: bool, count: int, seconds: float | None
) -> None:
    """Show the last turns of a session, or follow the running one."""

    async def act(opened: OpenServer) -> None:
        name = opened.name(what)
        session = await opened.find_session(name)
        if session is not None:
            await _SessionTail(terminal, opened, session.label, count).show(follows=follows)
        elif (run := find_long_id(name)) is not None:
            await _show_run(terminal, opened, run, follows=follows)
        else:
            turn = await opened.client.turns.get(name)
            await _show_run(terminal, opened, turn.id, follows=follows)

    async def act_in_time(opened: OpenServer) -> None:
        try:
            async with asyncio.timeout(seconds):
                await act(opened)
        except TimeoutError:
            pass

    on_server(terminal, act_in_time)


async def _show_run(terminal: Terminal, opened: OpenServer, run: str, *, follows: bool) -> None:
    try:
        status = await opened.client.runs.status(run)
    except NotFound:
        # A turn that was recorded without a run.
        status = "finished"
    if status != "finished" and not follows:
        terminal.note(f"it is {status}; follow it with: turntree tail -f {run}")
        return
    hear = streaming(terminal, shows_query=True)
    answered = await follow(opened, run, hear)
    if answered.turn.header.outcome == "failed" and answered.reason:
        terminal.note(clean(answered.reason))


class _SessionTail:
    """A session, watched from outside."""

    def __init__(self, terminal: Terminal, opened: OpenServer, label: str, count: int) -> None:
        self.terminal, self.opened, self.label, self.count = terminal, opened, label, count
        self.shown: set[str] = set()

    async def show(self, *, follows: bool) -> None:
        """Show what is recorded and, if it is to follow, what comes."""
        client = self.opened.client
        page = await self._newest(max(self.count, 1))
        self.shown.update(one.id for one in page[self.count :])
        self._show_turns(page[: self.count])
        while follows:
            for run in (await client.runs.list_open(self.label)).runs:
                self.shown.add(run.run)
                await follow(self.opened, run.run, streaming(self.terminal, shows_query=True))
            await asyncio.sleep(POLL_S)
            self._show_turns([one for one in await self._newest(20) if one.id not in self.shown])
        if left := len((await client.runs.list_open(self.label)).runs):
            what = "1 message is" if left == 1 else f"{left} messages are"
            hint = f"turntree tail -f {clean(self.label)}"
            self.terminal.note(f"{what} not answered yet; follow with: {hint}")

    async def _newest(self, count: int) -> tuple[SealedTurnDocument, ...]:
        return await self.opened.client.threads.read_sealed(self.label, last=count)

    def _show_turns(self, documents: Sequence[SealedTurnDocument]) -> None:
        for document in reversed(documents):
            self.shown.add(document.id)
            turn = read_sealed(document).turn
            if self.terminal.as_json:
                self.terminal.documents(
                    [{"event": "ended", **turn_document(turn), "reason": document.reason}]
                )
                continue
            for line in draw_talk(turn, self.terminal, label=self.label, reason=document.reason):
                self.terminal.say(line)
