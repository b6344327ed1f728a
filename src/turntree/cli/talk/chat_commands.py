"""The slash commands of a chat.

Each does what the command of the same name does on the command line. Moves are printed the same
way.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from turntree.cli.command import Terminal
from turntree.cli.common.fork_files import find_privacy
from turntree.cli.common.listen import ChatSession
from turntree.cli.common.session_move import Move, follow
from turntree.cli.context import CliContext
from turntree.cli.output.context import draw_context
from turntree.cli.output.text import age, clean, digits, table, title
from turntree.cli.talk.compact import say_compaction
from turntree.core.program import address_of, name_in
from turntree.core.session import Session
from turntree.core.value import value
from turntree.programs.model_choice import choose_model

LOG_TURNS: Final = 10


class CommandError(Exception):
    """The line is not a command of the chat."""


@dataclass(slots=True)
class ChatState:
    """The state of a chat: its session and its options."""

    terminal: Terminal
    label: str
    situation: str | None = None


@value
class _Command:
    usage: str
    help: str
    act: "Callable[[CliContext, ChatState, str], Awaitable[list[str]]]"


def run_command(talk: ChatSession, chatting: ChatState, text: str) -> bool:
    """Run a slash command; False ends the chat.

    Raises:
        CommandError: There is no such command.
        TurntreeError: The command failed.
    """
    word, _, rest = text[1:].partition(" ")
    if word in ("quit", "exit", "q"):
        return False
    if word in ("help", "h", "?"):
        rows = [(f"/{one.usage}", one.help) for one in COMMANDS.values()]
        rows.append(("/quit", "leave; everything stays"))
        rows.append(("//text", "send a line that begins with a slash"))
        lines = table(rows)
    elif word in COMMANDS:
        command = COMMANDS[word]
        lines = talk.call(lambda opened: command.act(opened, chatting, rest.strip()))
    else:
        raise CommandError(f"there is no /{clean(word)}: see /help")
    for line in lines:
        chatting.terminal.say(chatting.terminal.spell(line))
    return True


async def _fork(opened: CliContext, chatting: ChatState, name: str) -> list[str]:
    tree = opened.tree
    label = name or await tree.sessions.find_free_label(chatting.label)
    config = await tree.programs.find(chatting.label)
    session = await tree.sessions.fork(chatting.label, label)
    if config is not None and config.config:
        # The fork gets the same model.
        await tree.programs.configure(session.label, config.config)
    before, chatting.label = chatting.label, session.label
    await opened.choose(session.label)
    return [
        f"{clean(session.label)} begins at {digits(session.head_digest)}   (nothing was copied)",
        f"back with: /switch {clean(before)}",
        *await find_privacy(opened, session),
    ]


async def _switch(opened: CliContext, chatting: ChatState, name: str) -> list[str]:
    session = await opened.tree.sessions.get(_required(name, "switch SESSION"))
    chatting.label = session.label
    await opened.choose(session.label)
    return [f"this is {clean(session.label)} now, at {digits(session.head_digest)}"]


async def _rewind(opened: CliContext, chatting: ChatState, count: str) -> list[str]:
    if count and not (count.isascii() and count.isdigit() and int(count)):
        raise CommandError("say how many turns to go back: /rewind 2")
    turn = (await opened.tree.resolve(f"{chatting.label}~{count or 1}")).turn
    moved = await opened.tree.sessions.rewind(chatting.label, turn)
    return _tell_move(*await follow(opened, moved))


async def _undo(opened: CliContext, chatting: ChatState, _: str) -> list[str]:
    moved = await opened.tree.sessions.undo(chatting.label)
    return _tell_move(*await follow(opened, moved))


def _tell_move(session: Session, move: Move) -> list[str]:
    label = clean(session.label)
    return [f"{label} moved {digits(move.after)} <- {move.left}   (nothing was deleted; /undo)"]


async def _model(opened: CliContext, chatting: ChatState, name: str) -> list[str]:
    programs = opened.tree.programs
    if name:
        address = address_of(name_in(name))
        await programs.configure(chatting.label, {"default_model": address})
    choice = await choose_model(programs, session=chatting.label, situation=chatting.situation)
    via = "" if choice.provider is None else f" via {clean(choice.provider.address)}"
    backend = choice.values.get("model_id")
    what = "" if backend is None else f" ({clean(str(backend.value))})"
    return [f"{clean(choice.model.address)}{what} answers{via}"]


async def _log(opened: CliContext, chatting: ChatState, count: str) -> list[str]:
    session = await opened.tree.sessions.get(chatting.label)
    if session.head is None:
        return ["nothing was said yet"]
    last = int(count) if count.isascii() and count.isdigit() and int(count) else LOG_TURNS
    now = opened.tree.sessions.world.now()
    rows = [
        (
            digits(placed.turn.digest),
            age(placed.turn.header.sealed_at, now),
            clean(placed.turn.header.model or ""),
            title(placed.turn),
        )
        for placed in reversed(await opened.tree.threads.read(session.head, last=last))
    ]
    return table(rows)


async def _context(opened: CliContext, chatting: ChatState, _: str) -> list[str]:
    session = await opened.tree.sessions.get(chatting.label)
    if session.head is None:
        return ["nothing was said yet"]
    return [*draw_context(await opened.tree.contexts.read(session.head), chatting.terminal)]


async def _compact(opened: CliContext, chatting: ChatState, focus: str) -> list[str]:
    answer = await opened.tree.runs.compact(chatting.label, focus=focus)
    return [f"{say_compaction(answer.turn.turn)}   (nothing was deleted; /undo)"]


async def _cancel(opened: CliContext, chatting: ChatState, _: str) -> list[str]:
    run = await opened.tree.runs.cancel(chatting.label)
    return ["nothing is being answered" if run is None else "canceled"]


def _required(text: str, usage: str) -> str:
    if not text:
        raise CommandError(f"it is /{usage}")
    return text


COMMANDS: Final[Mapping[str, _Command]] = {
    "fork": _Command("fork [NAME]", "begin a session here and talk on in it", _fork),
    "switch": _Command("switch SESSION", "talk on in another session", _switch),
    "rewind": _Command("rewind [N]", "go back N turns, or one; nothing is deleted", _rewind),
    "undo": _Command("undo", "take the last move back", _undo),
    "model": _Command("model [NAME]", "say who answers, or have another one answer", _model),
    "log": _Command("log [N]", "list the last turns", _log),
    "context": _Command("context", "show what the model saw for the last turn", _context),
    "compact": _Command("compact [FOCUS]", "summarize what was said, to save tokens", _compact),
    "cancel": _Command("cancel", "end what is being answered", _cancel),
}
