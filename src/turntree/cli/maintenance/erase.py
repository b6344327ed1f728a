"""``erase``: take one message out of the ledger for good, and say what stays.

This cannot be undone, so it asks first and never takes silence for consent.
"""

import sys
from functools import partial
from typing import Final

import click

from turntree.cli.command import Terminal, verb
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.hints import command_hint
from turntree.cli.output.annotations import name_sessions
from turntree.cli.output.parts import find_part, words_of
from turntree.cli.output.text import clean, cut, digits, pad
from turntree.cli.param_types import REVISION
from turntree.core.canonical import digest_bytes
from turntree.core.errors import InvalidOperation, InvalidRevision
from turntree.core.event import Event
from turntree.core.ids import Digest
from turntree.core.message import ErasedMessage, Message, line_of
from turntree.core.revision import MessagePart
from turntree.core.session import Session
from turntree.core.turn import Turn
from turntree.core.value import value
from turntree.resources.offline.replica import forget_replicas
from turntree.system.shell_words import quoted

REASON_DEFAULT: Final = "on request"
SESSIONS_READ_MAX: Final = 20
ROLE_COLUMNS: Final = 10


@value
class ErasureTarget:
    """A message, and where it is."""

    turn: Turn
    number: int
    message: Message | ErasedMessage
    held_by: tuple[Session, ...]

    @property
    def address(self) -> str:
        """How a command names the message."""
        return f"{digits(self.turn.digest)}:msg/{self.number}"

    @property
    def digest(self) -> Digest:
        """The digest of the message, which stays."""
        if isinstance(self.message, ErasedMessage):
            return self.message.digest
        return digest_bytes(line_of(self.turn.messages[self.number]))


@verb()
@click.argument("message", metavar="MESSAGE", type=REVISION)
@click.option(
    "--reason",
    metavar="TEXT",
    default=REASON_DEFAULT,
    show_default=True,
    help="Reason for the receipt; it is kept, so do not repeat the message in it.",
)
@click.option("--yes", "-y", is_flag=True, help="No question before erasing.")
def erase(terminal: Terminal, message: str, reason: str, yes: bool) -> None:
    """Erase a message for good; a receipt and the message's digest stay.

    MESSAGE is REV:msg/0 for the first message of a turn, REV:msg/1 for the next. The message goes
    from the turn, from the search index and from imported records. The turn keeps its address, and
    verify reports the gap. This cannot be undone, so a terminal is asked first; without one, --yes
    is needed.
    """
    asked = with_ledger(terminal, partial(_read, revision=message))
    if isinstance(asked.message, Message) and not yes:
        if not (terminal.is_live and sys.stdin.isatty()):
            raise InvalidOperation(
                "erasing cannot be undone, and there is no terminal to ask on",
                hint=command_hint(f"turntree erase {quoted(asked.address)} --yes"),
            )
        shown = cut(_words(asked.message), terminal.width - 2, ellipsis=terminal.spell("…"))
        terminal.note(f"{asked.address}, {asked.message.role}:\n  {shown}")
        terminal.note("This cannot be undone. If it is a secret, change the secret first.")
        if not click.confirm("erase it for good?", default=False, err=True):
            terminal.note("nothing was erased")
            return
    changed, receipt = with_ledger(terminal, partial(_erase, asked=asked, reason=reason))
    terminal.tell(
        f"{'erased' if changed else 'already erased:'} message {asked.number} of "
        f"{digits(asked.turn.digest)}",
        {
            "turn": asked.turn.id,
            "turn_digest": asked.turn.digest,
            "message": asked.number,
            "message_digest": asked.digest,
            "erased": changed,
            "receipt": {"kind": receipt.kind, "at": receipt.at, **receipt.data},
            "stays": _list_left(asked),
        },
        undo=None,
    )
    if terminal.as_json:
        return
    terminal.say(
        f"receipt  {clean(str(receipt.data['by']))} at {receipt.at[:16].replace('T', ' ')} UTC: "
        f"{clean(str(receipt.data['reason']))}"
    )
    terminal.say(f"digest   {asked.digest}")
    terminal.say("What stays, because no ledger can reach it or the proof needs it:")
    for line in _list_left(asked):
        terminal.say(f"  - {line}")
    terminal.note(f"next: turntree verify {digits(asked.turn.digest)}")


async def _read(opened: CliContext, *, revision: str) -> ErasureTarget:
    tree = opened.tree
    place = await tree.resolve(revision)
    stored = await tree.turns.get(place.turn)
    (readable,) = await tree.turns.restore([stored])
    holding = await tree.turns.threads.list_sessions_holding(place.turn)
    sessions = tuple(await name_sessions(opened, holding[:SESSIONS_READ_MAX]))
    if not isinstance(place.part, MessagePart):
        short = digits(stored.turn.digest)
        listed = "\n".join(
            f"  {short}:msg/{number}  {pad(one.role, ROLE_COLUMNS)}{cut(_words(one), 50)}".rstrip()
            for number, one in enumerate(readable.turn.messages)
        )
        raise InvalidRevision(
            f"one message can be erased at a time, and {revision!r} does not name one:\n{listed}",
            hint=command_hint(f"turntree erase {short}:msg/0"),
        )
    find_part(readable.turn, place.part)
    message = readable.turn.messages[place.part.n]
    # Sealed bytes, not the restored ones, give the digest that stays.
    return ErasureTarget(stored.turn, place.part.n, message, sessions)


async def _erase(opened: CliContext, *, asked: ErasureTarget, reason: str) -> tuple[bool, Event]:
    tree = opened.tree
    changed = await tree.turns.erase(asked.turn.id, asked.number, reason=reason)
    # They hold the titles of turns. The next turn of each folder writes its replica again.
    forget_replicas(opened.settings.home)
    receipts = [
        recorded.event
        for recorded in await tree.ledger.facts(asked.turn.id)
        if recorded.event.kind == "message.erased"
        and recorded.event.data["sequence"] == asked.number
    ]
    return changed, receipts[-1]


def _words(message: Message | ErasedMessage) -> str:
    return clean(" ".join(words_of(part, "full") for part in message.parts)) or "(no text)"


def _list_left(asked: ErasureTarget) -> list[str]:
    """Return what an erasure does not reach, one sentence each."""
    tools = sorted({s.origin.tool for s in asked.held_by if s.origin is not None})
    transcripts = [f"the transcript that {clean(tool)} keeps in its own files" for tool in tools]
    labels = [
        f"the name {quoted(clean(session.label))}, if it quotes the message: "
        "turntree session rename"
        for session in asked.held_by[:1]
    ]
    return [
        "exports, backups and worktrees made before, and what models were sent",
        *transcripts,
        "other messages that quote it, summaries included",
        *labels,
        "its digest: a short text can be guessed from it",
        "who spoke and when, and the reason above",
    ]
