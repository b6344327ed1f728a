"""``chat``: chat with a session on a terminal, line by line.

The thread is in the ledger, so a terminal may die at any time: the next one shows where the chat
is, and any reply that was generated meanwhile. ``cli.talk.chat_commands`` has the slash commands,
``cli.output.stream_printer`` prints a reply.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import click

from turntree.cli.command import Terminal, verb
from turntree.cli.common.failed_runs import read_last
from turntree.cli.common.listen import ChatSession, ReplyListener, interruptible, open_talk
from turntree.cli.common.model_setup import ensure_model
from turntree.cli.common.reply import note_redacted, price_finder, talk_options
from turntree.cli.common.request_text import draw_request
from turntree.cli.common.verdicts import Verdict, choose_verdict
from turntree.cli.context import SESSION_DEFAULT, CliContext
from turntree.cli.hints import command_for, hint_line
from turntree.cli.output.dialogue import draw_tail
from turntree.cli.output.stream_printer import StreamPrinter, write_documents
from turntree.cli.output.text import clean
from turntree.cli.param_types import PROGRAM, SESSION
from turntree.cli.talk.chat_commands import ChatState, CommandError, run_command
from turntree.cli.talk.line_editor import LineEditor
from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation, TurntreeError
from turntree.core.ids import RunId, Timestamp, TurnId
from turntree.core.session import Session
from turntree.core.thread import ThreadTurn
from turntree.policy.approval import Approval
from turntree.runs.follow import Heard, RunNotice
from turntree.runs.inbox import QueuedMessage
from turntree.runs.service import PostOptions
from turntree.system.clock import SystemClock
from turntree.system.head_file import read_head

TAIL_TURNS: Final = 3
VERDICTS: Final = "y allows it, n refuses, e edits, Enter decides later: "
PARKED_S: Final = 0.5
"""How long a run must be parked before the chat says that it waits."""


@verb()
@click.argument("session", metavar="[SESSION]", required=False, type=SESSION)
@click.option("--model", type=PROGRAM, help="Model that replies in it from now on.")
@click.option("--situation", help="Situation: the overlay of the model to use in this chat.")
@talk_options
def chat(
    terminal: Terminal,
    session: str | None,
    model: str | None,
    situation: str | None,
    tools: tuple[str, ...],
    no_worker: bool,
) -> None:
    """Chat with a session in the terminal.

    Without a SESSION, uses the one you have chosen, else main. Creates it if it does not exist.
    If you have no model yet, a key in the environment is enough: ANTHROPIC_API_KEY, OPENAI_API_KEY
    or GEMINI_API_KEY. Every line is sent, except those that begin with a slash: /help lists them. A
    paste of several lines is one message, and Alt-Enter begins a new line. Ctrl-C cancels the reply
    in progress, and a second Ctrl-C leaves the chat. A terminal that is killed loses nothing:
    `turntree chat` in the same folder continues.
    """
    with open_talk(terminal, tools=tools, serves=not no_worker) as talk:
        found = talk.call(lambda opened: _begin(opened, terminal, session, model, situation))
        # A default is not stored as HEAD: `turntree undo` here may mean an agent's session.
        is_current = talk.opened.current == found.label
        if session is not None or (is_current and read_head(Path.cwd()) is None):
            talk.call(lambda opened: opened.choose(found.label))
        editor = LineEditor(talk.opened.settings.home)
        Chat(terminal, talk, ChatState(terminal, found.label, situation), editor).run()


async def _begin(
    opened: CliContext,
    terminal: Terminal,
    name: str | None,
    model: str | None,
    situation: str | None,
) -> Session:
    tree = opened.tree
    # Never continue an agent's session by default, only if the user has chosen it.
    label = name or opened.chosen or SESSION_DEFAULT
    route = await tree.runs.route(label)
    agent = await tree.runs.find_agent(route)
    # Before the session is created and before the user types: a set-up that fails leaves nothing.
    options: dict[str, Json] = {"model": model, "situation": situation, "agent": agent}
    await ensure_model(opened, terminal, route, options)
    found = await tree.sessions.get((await tree.runs.begin(route)).label or label)
    if agent is not None:
        terminal.note(f"@({clean(agent)}) answers in {clean(found.label)}")
    if model is not None:
        named = await tree.programs.get(model)
        await tree.programs.configure(found.label, {"default_model": named.address})
    return found


@dataclass(slots=True)
class Chat:
    """A person chatting with a session."""

    terminal: Terminal
    talk: ChatSession
    chatting: ChatState
    editor: LineEditor
    _was_interrupted: bool = field(default=False, init=False)

    def run(self) -> None:
        """Show the last turns, then read lines until there are no more."""
        # Listed first: what is answered while the last turns are read would be in neither.
        unfinished = self.talk.list_unfinished(self.chatting.label)
        self._show_tail(unfinished)
        try:
            for run in unfinished:
                self._answer(run, shows_query=True)
            while (line := self._read()) is not None:
                if not self._take(line):
                    break
        except KeyboardInterrupt:
            self.terminal.note("")
        finally:
            self.editor.keep()
        label = clean(self.chatting.label)
        self.terminal.note(f"go on with: turntree chat {label}")

    def _take(self, line: str) -> bool:
        """Process a line; False ends the chat."""
        text = line.strip()
        try:
            # A command is one line: a paste that begins with a slash is a path or code.
            is_command = text.startswith("/") and "\n" not in text
            if is_command and not text.startswith("//"):
                return run_command(self.talk, self.chatting, text)
            if text:
                self._send(text.removeprefix("/") if is_command else line)
        except (TurntreeError, CommandError) as error:
            self.terminal.note(f"{self.terminal.paint_err('error:', 'bad')} {clean(str(error))}")
            hint = error.hint if isinstance(error, TurntreeError) else None
            if hint is not None and (command := command_for(hint)) is not None:
                self.terminal.note(hint_line(command))
        return True

    def _send(self, text: str) -> None:
        chatting = self.chatting

        async def post(opened: CliContext) -> QueuedMessage:
            options: PostOptions = {}
            if chatting.situation is not None:
                options["situation"] = chatting.situation
            return await opened.tree.runs.post(chatting.label, text, **options)

        posted = self.talk.call(post)
        note_redacted(self.terminal, posted)
        self._answer(posted.run)

    def _answer(self, run: RunId, *, shows_query: bool = False) -> None:
        """Show a reply as it arrives. Ctrl-C cancels it, and a second one leaves the chat."""
        listening = self.talk.listen(run)
        with listening.hearing_interrupts():
            self._hear_out(run, listening, self._hear(shows_query=shows_query))

    def _hear_out(
        self, run: RunId, listening: ReplyListener[ThreadTurn], hear: Callable[[Heard], None]
    ) -> None:
        is_canceled, waits_for = False, ""
        while True:
            try:
                heard = listening.next(PARKED_S if waits_for else None)
                if heard is None:
                    # Raises what went wrong meanwhile.
                    _ = listening.result
                    return
                hear(heard)
                waits_for = (
                    heard.reason if isinstance(heard, RunNotice) and heard.kind == "parked" else ""
                )
            except TimeoutError:
                with interruptible():
                    if self._decide(run):
                        waits_for = ""
                        continue
                # An approval may take days, so the user gets the prompt back meanwhile.
                listening.stop()
                self.terminal.note(f"it waits for {clean(waits_for)}; /cancel ends it")
                return
            except KeyboardInterrupt:
                if is_canceled:
                    listening.stop()
                    raise
                is_canceled = True
                self.terminal.note("\ncanceling; Ctrl-C again leaves the chat")
                # Only this run: the same session may be replying to another user.
                self.talk.call(lambda opened: opened.tree.runs.cancel(run))

    def _decide(self, run: RunId) -> bool:
        """Ask about what a run waits for; return whether this person has decided all of it."""

        async def read(opened: CliContext) -> tuple[list[Approval], int, Timestamp]:
            approvals, now = opened.tree.approvals, SystemClock().now()
            mine = await approvals.list_waiting(session=self.chatting.label, mine=True)
            every = await approvals.list_waiting(session=self.chatting.label)
            return [one for one in mine if one.run == run], len(every), now

        mine, count, now = self.talk.call(read)
        decided = [self._decide_one(one, now) for one in mine] if not self.terminal.as_json else []
        return bool(decided) and all(decided) and len(decided) == count

    def _decide_one(self, one: Approval, now: Timestamp) -> bool:
        """Show a request and ask for a decision; return whether there is one."""
        self.terminal.note("")
        for line in draw_request(one, now):
            self.terminal.note(line)
        question = "answer: " if one.kind == "question" else VERDICTS
        while True:
            try:
                said = self.editor.read(self.terminal.paint(question, "label")).strip()
                if not said:
                    return False
                verdict = choose_verdict(one, said)
            except (EOFError, KeyboardInterrupt):
                return False
            except InvalidOperation as error:
                # A mistyped edit is asked again: the next line would be a message that waits
                # behind the call.
                self._note_error(error)
                continue
            if verdict is None:
                continue
            try:
                self.talk.call(partial(_decide_by, verdict))
            except TurntreeError as error:
                self._note_error(error)
                return False
            return True

    def _note_error(self, error: TurntreeError) -> None:
        mark = self.terminal.paint_err("error:", "bad")
        self.terminal.note(f"{mark} {clean(str(error))}")

    def _hear(self, *, shows_query: bool) -> Callable[[Heard], None]:
        if self.terminal.as_json:
            return write_documents(_write)
        return StreamPrinter(self.terminal, _write, price_finder(), shows_query=shows_query).hear

    def _show_tail(self, unfinished: Sequence[RunId]) -> None:
        """Show the last turns, except those whose replies are still to be shown."""
        label = self.chatting.label

        async def read(
            opened: CliContext,
        ) -> tuple[Session, tuple[ThreadTurn, ...], dict[TurnId, str]]:
            session = await opened.tree.sessions.get(label)
            last = await read_last(opened, session, TAIL_TURNS)
            turns = tuple(one for one in last if RunId(one.turn.id) not in unfinished)
            failed = [one.turn.id for one in turns if one.turn.header.outcome == "failed"]
            return session, turns, await opened.tree.runs.list_reasons(failed)

        session, turns, reasons = self.talk.call(read)
        if not self.terminal.as_json:
            for line in draw_tail(session, turns, reasons, self.terminal):
                self.terminal.say(line)

    def _read(self) -> str | None:
        r"""Return the next line, or None at the end; a line that ends in \ continues."""
        prompt = self.terminal.paint(f"{clean(self.chatting.label)}> ", "label")
        text = ""
        while True:
            try:
                line = self.editor.read(prompt)
            except EOFError:
                return None
            except KeyboardInterrupt:
                if self._was_interrupted:
                    return None
                self._was_interrupted = True
                self.terminal.note("\nCtrl-C again, Ctrl-D or /quit leaves the chat")
                text = ""
                continue
            self._was_interrupted = False
            if not line.endswith("\\"):
                return text + line
            text += line[:-1] + "\n"


async def _decide_by(verdict: Verdict, opened: CliContext) -> Approval:
    return await verdict(opened.tree.approvals)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
