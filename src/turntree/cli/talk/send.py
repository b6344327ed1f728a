"""``send``, ``cancel`` and ``tail``: send a message, cancel a run, follow a session."""

import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from turntree.cli.command import Terminal, verb
from turntree.cli.common.failed_runs import note_failed, read_last
from turntree.cli.common.listen import ChatSession, open_talk
from turntree.cli.common.reply import (
    OutgoingMessage,
    check_answer,
    nothing,
    post,
    streaming,
    talk_options,
    tell_answer,
    wait_for,
)
from turntree.cli.common.verdicts import require_person
from turntree.cli.context import CliContext
from turntree.cli.hints import command_hint
from turntree.cli.output.dialogue import draw_talk
from turntree.cli.output.stream_printer import turn_document
from turntree.cli.output.text import clean, counted, digits
from turntree.cli.param_types import PROGRAM, REVISION, SESSION
from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation, NotFound
from turntree.core.ids import RunId, SessionId, TurnId, find_long_id
from turntree.core.message import SOURCES, Source
from turntree.core.session import Session
from turntree.core.thread import ThreadTurn
from turntree.core.turn import Turn
from turntree.routing.router import CANDIDATES_DEFAULT, CANDIDATES_MAX
from turntree.runs.follow import Heard, RunNotice
from turntree.runs.inbox import QueuedMessage

POLL_S: Final = 0.3
TAIL_TURNS: Final = 3
STDIN: Final = "-"
ATTACHED_BYTES_MAX: Final = 4 * 2**20
INSTEAD: Final = "another message came instead"
ASKING: Final = frozenset({"approval", "question"})
"""Why a run is parked that waits for a person."""
UNSERVED: Final = "no worker serves: what is sent waits for `turntree worker`; Ctrl-C leaves"


@verb()
@click.argument("session", metavar="[TARGET]", required=False, type=REVISION)
@click.argument("words", metavar="MESSAGE", nargs=-1)
@click.option("--model", type=PROGRAM, help="Model to use, this time.")
@click.option("--situation", help="Situation: the overlay of the model to use, this time.")
@click.option(
    "--idempotency-key",
    "key",
    help="Idempotency key: a message with the same key is sent only once.",
)
@click.option(
    "--new", "is_new", is_flag=True, help="New session, even if TARGET is a part of a label."
)
@click.option("--join", "fold", is_flag=True,
              help="Join with your last message, in one turn, if it is still queued.")  # fmt: skip
@click.option("--instead", is_flag=True,
              help="Rejection of the waiting requests, so that this is answered.")  # fmt: skip
@click.option("--wait/--no-wait", default=True, help="Wait for the reply (default).")
@click.option("--stream", is_flag=True, help="Output as it arrives, with tool calls.")
@click.option("--dry-run", is_flag=True, help="Where the message would go; nothing is sent.")
@click.option(
    "--to",
    "target",
    metavar="TARGET",
    type=REVISION,
    help="Target, instead of the first argument.",
)
@click.option("--agent", type=PROGRAM, help="Agent that answers, this time.")
@click.option("--source", type=click.Choice(SOURCES), default="human", show_default=True,
              help="What sends the message; for a crontab, a webhook or a script.")  # fmt: skip
@click.option("--allow", multiple=True, metavar="PATTERN",
              help="Only these permissions, this time: tool:fs.*; repeatable.")  # fmt: skip
@click.option("--deny", multiple=True, metavar="PATTERN",
              help="None of these permissions, this time; repeatable.")  # fmt: skip
@click.option("--prompt", help="System prompt instead of the session's, this time.")
@click.option("--attach", "attached", multiple=True, metavar="FILE",
              type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="Text file that the model reads with the message; repeatable.")  # fmt: skip
@click.option("--explain", is_flag=True, help="Reasons and alternatives, with --dry-run.")
@click.option(
    "--as",
    "sender",
    metavar="NAME",
    help="Sender with --dry-run; what is hidden from them is not considered.",
)
@click.option("-n", "--limit", type=click.IntRange(1, CANDIDATES_MAX), default=CANDIDATES_DEFAULT,
              show_default=True, help="Number of threads to consider, with --dry-run.")  # fmt: skip
@talk_options
def send(
    terminal: Terminal,
    session: str | None,
    words: tuple[str, ...],
    *,
    dry_run: bool,
    target: str | None,
    explain: bool,
    sender: str | None,
    limit: int,
    key: str | None,
    is_new: bool,
    wait: bool,
    stream: bool,
    tools: tuple[str, ...],
    no_worker: bool,
    allow: tuple[str, ...],
    deny: tuple[str, ...],
    source: Source,
    attached: tuple[Path, ...],
    instead: bool,
    **asked: Any,
) -> None:
    """Send a message and print the reply.

    TARGET is a session, an agent (@(NAME), which answers in NAME:main), any turn (a REV, which
    begins a fork) or a sender (channel:KIND:ID, entity:NAME). Without a TARGET, the message goes to
    the thread that fits it best. A session may be named by a part of its label if no other label
    begins or ends with it; another name begins a session. In a session that belongs to an agent,
    that agent answers.

    A MESSAGE of - is read from stdin. If no worker serves the workspace, this command does, for as
    long as the reply takes; `turntree worker` serves all sessions. Once queued, a message is
    answered even if processes die: send it again with the same --idempotency-key to get its reply.
    If you have no model yet, a key in the environment is enough: ANTHROPIC_API_KEY, OPENAI_API_KEY
    or GEMINI_API_KEY.
    """
    said = [*([] if session is None else [session]), *words]
    if dry_run:
        from turntree.cli.sessions.route import RouteQuestion, show_route

        if target is None and words:
            target, *said = said
        question = RouteQuestion(" ".join(said), target or "", sender, limit)
        show_route(terminal, question, explain=explain)
        return
    if explain or sender is not None:
        raise click.UsageError("--explain and --as go with --dry-run")
    if target is None and len(said) == 1 and " " in said[0].strip():
        target = ""  # No target: the text decides.
    elif target is None:
        target, *said = said or [""]
    if len(said) != 1:
        raise click.UsageError("name a target and one message, in quotes if it has several words")
    text = sys.stdin.read() if said[0] == STDIN else said[0]
    if not text.strip():
        raise click.UsageError("the message is empty")
    # Options that were not given are absent: model, situation, agent, fold.
    options: dict[str, Json] = {name: value for name, value in asked.items() if value}
    if allow or deny:
        options["permissions"] = _limits(allow, deny)
    if not wait:
        options["tells_failure"] = True
    files = {str(path): _read_text(path) for path in attached}
    with open_talk(terminal, tools=tools, serves=wait and not no_worker) as talk:
        if instead:
            _reject_waiting(terminal, talk, target)
        outgoing = OutgoingMessage(target, text, key, options, is_new, source, files)
        posted = post(terminal, talk, outgoing)
        if not wait:
            _tell_posted(terminal, posted, is_folded="fold" in options)
            return
        if no_worker and not talk.is_served():
            terminal.note(UNSERVED)
        if stream and terminal.as_json and posted.route is not None:
            terminal.document({"event": "routed", **_went(posted)})
        shows = streaming(terminal) if stream else nothing

        def hear(heard: Heard) -> None:
            shows(heard)
            # Otherwise nothing is shown, perhaps for days.
            match heard:
                case RunNotice("parked", reason) if reason in ASKING:
                    terminal.note(
                        "a person has to decide first; Ctrl-C leaves, and the run goes on"
                    )
                    terminal.note("next, elsewhere: turntree inbox")
                case _:
                    pass

        answered = wait_for(talk, posted.run, hear)
    if stream:
        check_answer(answered)
    else:
        tell_answer(terminal, answered, _went(posted))


def _reject_waiting(terminal: Terminal, talk: ChatSession, target: str) -> None:
    """Reject what a session waits for, which ends its run: its next message is answered."""
    if not target:
        raise click.UsageError("--instead needs the session as TARGET")
    require_person()

    async def act(opened: CliContext) -> int:
        return await opened.tree.approvals.reject_waiting(target, note=INSTEAD)

    note_rejected(terminal, talk.call(act))


def note_rejected(terminal: Terminal, count: int) -> None:
    """Say how many requests were rejected for another message."""
    what = "no request was waiting" if count == 0 else f"{counted(count, 'request')} rejected"
    terminal.note(f"{what}; this message is answered instead")


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(ATTACHED_BYTES_MAX + 1)
        if len(data) > ATTACHED_BYTES_MAX:
            raise InvalidOperation(f"{path} is larger than {ATTACHED_BYTES_MAX // 2**20} MiB")
        return data.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidOperation(f"{path} cannot be attached: {error}") from error


def _went(posted: QueuedMessage) -> dict[str, Any]:
    """Return where a message went, and which agent answers it, as JSON."""
    return {"session": posted.label, "agent": posted.agent, "route": posted.route}


def _limits(allow: tuple[str, ...], deny: tuple[str, ...]) -> dict[str, Any]:
    """Return the limits of a message as JSON, after checking its patterns."""
    from turntree.auth.run_rights import read_limits

    limits: dict[str, Any] = {"deny": [*deny], **({"allow": [*allow]} if allow else {})}
    read_limits(limits)
    return limits


def _tell_posted(terminal: Terminal, posted: QueuedMessage, *, is_folded: bool) -> None:
    run, seq = posted.run, posted.seq
    done = "was taken in before" if posted.repeated else "is taken in"
    # A message that joined another cannot be canceled alone.
    undo = None if posted.repeated or is_folded else f"turntree cancel {run}"
    terminal.tell(
        f"message {seq} to {clean(posted.label or '')} {done}; its turn will be {run}",
        {**_went(posted), "run": run, "seq": seq, "repeated": posted.repeated},
        undo=undo,
        then=(f"follow it with: turntree tail -f {run}",),
    )


@verb()
@click.argument("what", metavar="[SESSION|RUN]", default="HEAD", type=SESSION)
@click.option("--discard", is_flag=True, help="No move of the head, even if a tool had started.")
@click.option("--wait/--no-wait", default=True, help="Wait for its end (default).")
def cancel(terminal: Terminal, what: str, discard: bool, wait: bool) -> None:
    """Cancel the running turn of a session, or a single run.

    What was said and done so far stays, in a turn sealed as canceled. If a tool had started, the
    session continues after that turn, so that its effects are on record; --discard leaves the head
    where it was. A RUN is the address that `send --no-wait` printed: a message that is still queued
    is removed from the queue.
    """
    with open_talk(terminal, serves=False) as talk:
        label, run, waiting = talk.call(partial(_cancel, what=what, discard=discard))
        document: dict[str, Any] = {"session": label, "run": run}
        if run is None:
            there = f"{what} is over, or was never sent" if label is None else ""
            terminal.tell(
                there or f"nothing is being answered in {clean(label or '')}",
                document,
                undo=None,
                then=[f"take back what waits there with: turntree cancel {one}" for one in waiting],
            )
            return
        if run in waiting:
            said = f"{run} is canceled: it was still queued and will not run"
            terminal.tell(said, document, undo=None)
            return
        if not wait:
            terminal.tell(f"{run} was asked to end", document, undo=None)
            return
        # Its worker may be dead: then the turn is sealed here.
        talk.serve()
        answered = wait_for(talk, run, nothing)
    said = f"the turn {run} is {answered.turn.header.outcome}"
    terminal.tell(said, {**document, **turn_document(answered.turn)}, undo=None)


async def _cancel(
    opened: CliContext, *, what: str, discard: bool
) -> tuple[str | None, RunId | None, list[RunId]]:
    """Return the session if one was named, the canceled runs, and those still queued."""
    runs, sessions = opened.tree.runs, opened.tree.sessions
    run = await runs.cancel(what, discard=discard)
    if find_long_id(what) is not None and await sessions.ledger.find(what) is None:
        return None, run, [] if run is None or await runs.find_waiting(run) is None else [run]
    label = (await sessions.get(what)).label
    return label, run, [waiting.run for waiting in await runs.list_waiting(label)]


@verb()
@click.argument("what", metavar="[SESSION|REV]", default="HEAD", type=REVISION)
@click.option("--follow", "-f", "follows", is_flag=True, help="Follow new output as it comes.")
@click.option("-n", "count", metavar="N", type=click.IntRange(0, 1000), default=TAIL_TURNS,
              show_default=True, help="Number of finished turns to show first.")  # fmt: skip
@click.option("--for", "seconds", type=float, metavar="SECONDS", help="Time limit in seconds.")
def tail(terminal: Terminal, what: str, follows: bool, count: int, seconds: float | None) -> None:
    """Show the last turns of a session, or follow the running one.

    A REV shows the steps of that turn; a running turn is named by the address that `send --no-wait`
    printed. With --follow it continues until Ctrl-C.
    """
    ends = None if seconds is None else time.monotonic() + seconds
    with open_talk(terminal, serves=False) as talk:
        found = talk.call(partial(_find, what=what))
        if isinstance(found, Session):
            _Tail(terminal, talk, found.id, found.label, count).show(follows, ends)
        else:
            _Run(terminal, talk, found).show(follows, ends)


async def _find(opened: CliContext, *, what: str) -> Session | RunId:
    """Return the session or the run that is meant."""
    if (session := await opened.tree.sessions.ledger.find(what)) is not None:
        return session
    if what == "HEAD":
        return await opened.tree.sessions.get(what)
    try:
        found = await opened.tree.resolve(what)
        if found.session is not None and what.strip("…") in found.session.label:
            return found.session  # A part of its label, and not a turn of it such as main~2.
        return RunId(found.turn)
    except NotFound as error:
        # A turn that is not sealed yet is known by its full address only.
        if (id := find_long_id(what)) is not None:
            run = RunId(id)
            if await opened.tree.ledger.facts(run) or await opened.tree.runs.find_waiting(run):
                return run
        raise InvalidOperation(
            f"{what} is not a session, turn or run", hint=command_hint("turntree status")
        ) from error


class _Run:
    """A run, watched from outside."""

    def __init__(self, terminal: Terminal, talk: ChatSession, run: RunId) -> None:
        self.terminal, self.talk, self.run = terminal, talk, run
        self.hear = streaming(terminal, shows_query=True)

    def show(self, follows: bool, ends: float | None) -> None:
        """Show what is recorded and, with --follow, what comes."""
        status = self.talk.call(lambda opened: opened.tree.runs.status(self.run))
        if status != "finished":
            if not follows:
                following = self.talk.opened.running.following
                self.talk.call(lambda _: following.recount(self.run, self.hear))
                self.terminal.note(f"it is {status}; follow it with: turntree tail -f {self.run}")
                return
            if not self.talk.is_served():
                self.terminal.note(UNSERVED)
        with suppress(TimeoutError):
            turn = wait_for(self.talk, self.run, self.hear, ends=ends).turn
            if turn.header.outcome == "failed":
                self.terminal.note(f"ask again with: turntree rerun {digits(turn.digest)}")


class _Tail:
    """A session, watched from outside."""

    def __init__(
        self, terminal: Terminal, talk: ChatSession, session: SessionId, label: str, count: int
    ) -> None:
        self.terminal, self.talk = terminal, talk
        self.session, self.label, self.count = session, label, count
        self.head: TurnId | None = None
        self.shown: set[str] = set()
        self.known: set[RunId] = set()
        """The runs that had already failed at the start."""
        self.failed: list[Turn] = []

    def show(self, follows: bool, ends: float | None) -> None:
        """Show what is recorded and, with --follow, what comes."""
        self._show_turns(self.talk.call(self._newest))
        if not follows:
            if left := len(self.talk.list_unfinished(self.label)):
                what = "1 message is" if left == 1 else f"{left} messages are"
                hint = f"turntree tail -f {clean(self.label)}"
                self.terminal.note(f"{what} not answered yet; follow with: {hint}")
            return
        if not self.talk.is_served():
            self.terminal.note(UNSERVED)
        with suppress(TimeoutError):
            while ends is None or time.monotonic() < ends:
                self._show_unfinished(ends)
                time.sleep(POLL_S)
                self._show_turns(self.talk.call(self._since))

    def _show_unfinished(self, ends: float | None) -> None:
        for run in self.talk.list_unfinished(self.label):
            self.shown.add(run)
            hear = streaming(self.terminal, shows_query=True)
            turn = wait_for(self.talk, run, hear, ends=ends).turn
            if turn.header.outcome == "failed":
                self.failed.append(turn)
                self._note_failed()

    def _show_turns(self, turns: tuple[ThreadTurn, ...]) -> None:
        for placed in turns:
            if placed.turn.id in self.shown:
                continue
            self.shown.add(placed.turn.id)
            self._show_turn(placed.turn)
        self._note_failed()

    def _note_failed(self) -> None:
        note_failed(self.terminal, [digits(turn.digest) for turn in self.failed])
        self.failed.clear()

    def _show_turn(self, turn: Turn) -> None:
        reason = None
        if turn.header.outcome == "failed":
            reasons = self.talk.call(lambda opened: opened.tree.runs.list_reasons([turn.id]))
            reason = reasons.get(turn.id)
            self.failed.append(turn)
        if self.terminal.as_json:
            self.terminal.documents([{"event": "ended", **turn_document(turn), "reason": reason}])
            return
        for line in draw_talk(turn, self.terminal, label=self.label, reason=reason):
            self.terminal.say(line)

    async def _newest(self, opened: CliContext) -> tuple[ThreadTurn, ...]:
        session = await opened.tree.sessions.ledger.get(self.session)
        self.head = session.head
        self.known = {one.run for one in await opened.tree.runs.list_failed(self.label)}
        return await read_last(opened, session, self.count)

    async def _since(self, opened: CliContext) -> tuple[ThreadTurn, ...]:
        """Return the turns since the last look; none if the session was moved back."""
        session = await opened.tree.sessions.ledger.get(self.session)
        failed = [one.run for one in await opened.tree.runs.list_failed(self.label)]
        fresh = [run for run in failed if run not in self.known | self.shown]
        beside = [await opened.tree.turns.get(run) for run in fresh]
        return await opened.tree.turns.restore([*await self._moved(opened, session), *beside])

    async def _moved(self, opened: CliContext, session: Session) -> tuple[ThreadTurn, ...]:
        if session.head is None or session.head == self.head:
            return ()
        turns = await opened.tree.threads.read(session.head, last=max(self.count, TAIL_TURNS))
        known = [place for place, one in enumerate(turns) if one.turn.id == self.head]
        self.head = session.head
        return turns[known[0] + 1 :] if known else turns
