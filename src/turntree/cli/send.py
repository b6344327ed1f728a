"""``send``, ``cancel`` and ``tail``: a message, its end, and what is going on meanwhile."""

import sys
import time
from functools import partial
from typing import Any, Final

import click

from turntree.cli.names import PROGRAM, REVISION, SESSION
from turntree.cli.opening import Opened
from turntree.cli.render import clean
from turntree.cli.sending import (
    Outgoing,
    check_answer,
    nothing,
    post,
    streaming,
    talk_options,
    tell_answer,
    wait_for,
)
from turntree.cli.speaker import turn_document
from turntree.cli.talk_text import draw_talk
from turntree.cli.talking import Talk, open_talk
from turntree.cli.verb import Terminal, verb
from turntree.domain.canonical import Json
from turntree.domain.errors import NotFound, Refused
from turntree.domain.ids import RunId, SessionId, TurnId, find_long_id
from turntree.domain.session import Session
from turntree.domain.thread import Placed

POLL_S: Final = 0.3
TAIL_TURNS: Final = 3
STDIN: Final = "-"


@verb()
@click.argument("session", metavar="SESSION", type=SESSION)
@click.argument("message", metavar="MESSAGE")
@click.option("--model", type=PROGRAM, help="Which model answers, this time.")
@click.option("--situation", help="Which overlay of the model's is used, this time.")
@click.option("--key", help="A word for this message: sent again under it, it is not sent twice.")
@click.option("--fold", is_flag=True, help="Join a message that still waits, in one turn.")
@click.option("--wait/--no-wait", default=True, help="Wait for the answer, which is the default.")
@click.option("--stream", is_flag=True, help="Print the answer while it comes, with its tools.")
@talk_options
def send(
    terminal: Terminal,
    session: str,
    message: str,
    key: str | None,
    wait: bool,
    stream: bool,
    tools: tuple[str, ...],
    no_worker: bool,
    **asked: Any,
) -> None:
    """Send a message to a session and print the answer.

    A MESSAGE of - is read from stdin. If nobody answers on this machine or elsewhere, this command
    does, for as long as it takes; `turntree worker` answers for all that are sent. A message that
    was taken in is answered, whatever dies: the same --key asks for its answer again.
    """
    text = sys.stdin.read() if message == STDIN else message
    if not text.strip():
        raise click.UsageError("a message says something")
    # What was not asked for is absent: model, situation, fold.
    options: dict[str, Json] = {name: value for name, value in asked.items() if value}
    with open_talk(terminal, tools=tools, serves=wait and not no_worker) as talk:
        posted = post(talk, Outgoing(session, text, key, options))
        if not wait:
            _tell_posted(terminal, session, posted.run, posted.seq, repeated=posted.repeated)
            return
        if no_worker and not talk.is_served():
            terminal.note("nobody answers yet: it waits for turntree worker; Ctrl-C leaves it")
        answered = wait_for(talk, posted.run, streaming(terminal) if stream else nothing)
    if stream:
        check_answer(answered)
    else:
        tell_answer(terminal, answered)


def _tell_posted(terminal: Terminal, session: str, run: RunId, seq: int, *, repeated: bool) -> None:
    done = "was taken in before" if repeated else "is taken in"
    terminal.tell(
        f"message {seq} to {clean(session)} {done}; its turn will be {run}",
        {"session": session, "run": run, "seq": seq, "repeated": repeated},
        undo=None if repeated else f"turntree cancel {session}",
        then=(f"follow it with: turntree tail -f {run}",),
    )


@verb()
@click.argument("session", metavar="[SESSION]", default="HEAD", type=SESSION)
@click.option("--discard", is_flag=True, help="Leave the session where it was before.")
@click.option("--wait/--no-wait", default=True, help="Wait until it has ended; the default.")
def cancel(terminal: Terminal, session: str, discard: bool, wait: bool) -> None:
    """End what is being answered in a session.

    What was said and done so far stays, in a turn that is sealed as canceled. If a tool had begun,
    the session goes on after that turn, so that nobody forgets what was done; --discard leaves it
    where it was.
    """
    with open_talk(terminal, serves=wait) as talk:

        async def act(opened: Opened) -> tuple[str, RunId | None]:
            found = await opened.tree.sessions.get(session)
            return found.label, await opened.tree.runs.cancel(found.label, discard=discard)

        session, run = talk.call(act)
        if run is None:
            terminal.tell(
                f"nothing is being answered in {clean(session)}",
                {"session": session, "run": None},
                undo=None,
            )
            return
        if not wait:
            terminal.tell(f"{run} was asked to end", {"session": session, "run": run}, undo=None)
            return
        answered = wait_for(talk, run, nothing)
    terminal.tell(
        f"the turn {run} is {answered.turn.header.outcome}",
        {"session": session, "run": run, **turn_document(answered.turn)},
        undo=None,
    )


@verb()
@click.argument("what", metavar="[SESSION|REV]", default="HEAD", type=REVISION)
@click.option("--follow", "-f", "follows", is_flag=True, help="Go on while there is something.")
@click.option("-n", "count", metavar="N", type=click.IntRange(0, 1000), default=TAIL_TURNS,
              show_default=True, help="So many turns that are over, before.")  # fmt: skip
@click.option("--for", "seconds", type=float, metavar="SECONDS", help="Stop after so long.")
def tail(terminal: Terminal, what: str, follows: bool, count: int, seconds: float | None) -> None:
    """Show the last turns of a session, or follow what is being answered there.

    A REV shows how that turn was taken, step by step; a turn that is still being taken is named by
    the address that `send --no-wait` printed. Ctrl-C ends it.
    """
    with open_talk(terminal, serves=False) as talk:
        found = talk.call(partial(_find, what=what))
        if isinstance(found, Session):
            _Tail(terminal, talk, found.id, found.label, count).show(follows, seconds)
        else:
            wait_for(talk, found, streaming(terminal, shows_query=True))


async def _find(opened: Opened, *, what: str) -> Session | RunId:
    """Return the session, or the run, that somebody wants to see."""
    if (session := await opened.tree.sessions.ledger.find(what)) is not None:
        return session
    if what == "HEAD":
        return await opened.tree.sessions.get(what)
    try:
        return RunId((await opened.tree.resolve(what)).turn)
    except NotFound as error:
        # A turn that nobody has sealed yet is known by its whole address only.
        if (run := find_long_id(what)) is not None and await opened.tree.ledger.facts(run):
            return RunId(run)
        raise Refused(f"{what} is no session, turn or run: see `turntree status`") from error


class _Tail:
    """A session, watched from the outside."""

    def __init__(
        self, terminal: Terminal, talk: Talk, session: SessionId, label: str, count: int
    ) -> None:
        self.terminal, self.talk = terminal, talk
        self.session, self.label, self.count = session, label, count
        self.head: TurnId | None = None
        self.shown: set[str] = set()

    def show(self, follows: bool, seconds: float | None) -> None:
        """Show what is there, and what comes if one wants that."""
        ends = None if seconds is None else time.monotonic() + seconds
        self._show_turns(self.talk.call(self._newest))
        while True:
            for run in self.talk.list_unfinished(self.label):
                self.shown.add(run)
                wait_for(self.talk, run, streaming(self.terminal, shows_query=True))
            if not follows or (ends is not None and time.monotonic() >= ends):
                return
            time.sleep(POLL_S)
            self._show_turns(self.talk.call(self._since))

    def _show_turns(self, turns: tuple[Placed, ...]) -> None:
        for placed in turns:
            self.head = placed.turn.id
            if placed.turn.id in self.shown:
                continue
            self.shown.add(placed.turn.id)
            if self.terminal.as_json:
                self.terminal.documents([{"event": "ended", **turn_document(placed.turn)}])
            else:
                for line in draw_talk(placed.turn, self.terminal, label=self.label):
                    self.terminal.say(line)

    async def _newest(self, opened: Opened) -> tuple[Placed, ...]:
        session = await opened.tree.sessions.ledger.get(self.session)
        self.head = session.head
        if session.head is None or self.count == 0:
            return ()
        return await opened.tree.threads.read(session.head, last=self.count)

    async def _since(self, opened: Opened) -> tuple[Placed, ...]:
        """Return the turns that came since the last look; a session that went back has none."""
        session = await opened.tree.sessions.ledger.get(self.session)
        if session.head is None or session.head == self.head:
            return ()
        turns = await opened.tree.threads.read(session.head, last=max(self.count, TAIL_TURNS))
        known = [place for place, one in enumerate(turns) if one.turn.id == self.head]
        self.head = session.head
        return turns[known[0] + 1 :] if known else turns
