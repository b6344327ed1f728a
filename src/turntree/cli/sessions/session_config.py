"""``session configure``, and the messages of a session for ``log --messages``."""

from collections.abc import Iterator
from typing import Any

import click

from turntree.cli.command import Terminal, verb
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.output.text import clean, clean_block
from turntree.cli.param_types import PROGRAM, SESSION
from turntree.cli.programs.program import configure_program
from turntree.core.canonical import Json
from turntree.core.ids import TurnId
from turntree.core.message import Message, Text
from turntree.core.program import address_of, name_in
from turntree.core.session import Session
from turntree.core.thread import ThreadTurn
from turntree.core.usage import ModelCall
from turntree.ledger.thread_store import ReplyDetails

_TALK = ("user", "assistant")
_Calls = dict[TurnId, list[ModelCall]]
_Replies = dict[TurnId, list[ReplyDetails]]


@verb()
@click.argument("name", metavar="SESSION", type=SESSION)
@click.option("--model", type=PROGRAM, help="Model that replies from now on.")
@click.option("--owner", type=PROGRAM, help="Owner: an agent or a human.")
@click.option("--situation", help="Situation: the overlay of the model to use.")
@click.option("--prompt", help="System prompt, which forks inherit; '' for none.")
def configure(
    terminal: Terminal,
    name: str,
    model: str | None,
    owner: str | None,
    situation: str | None,
    prompt: str | None,
) -> None:
    """Set the model, the owner, the situation or the prompt of a session."""
    members = session_config(model, owner, situation, prompt)
    if not members:
        raise click.UsageError("say what to set: --model, --owner, --situation or --prompt")
    configure_program(terminal, name, members, is_label=True)


def session_config(
    model: str | None,
    owner: str | None,
    situation: str | None = None,
    prompt: str | None = None,
) -> dict[str, Json]:
    """Return the members of a session's config that the options set."""
    members: dict[str, Json] = {}
    members |= {} if model is None else {"default_model": address_of(name_in(model))}
    members |= {} if owner is None else {"owner": address_of(name_in(owner))}
    members |= {} if prompt is None else {"system_prompt": prompt}
    return members | ({} if situation is None else {"situation": situation})


def show_messages(terminal: Terminal, name: str, limit: int) -> None:
    """Print the messages of the last turns of a session, oldest first."""

    async def act(
        opened: CliContext,
    ) -> tuple[Session, tuple[ThreadTurn, ...], _Calls, _Replies]:
        session = await opened.tree.sessions.get(name)
        if session.head is None:
            return session, (), {}, {}
        read = await opened.tree.threads.read(session.head, last=limit)
        turns = await opened.tree.turns.restore(read)
        ids = [one.turn.id for one in turns]
        calls = await opened.tree.turns.list_calls(ids)
        return session, turns, calls, await opened.tree.turns.list_replies(ids)

    session, turns, calls, replies = with_ledger(terminal, act)
    if terminal.as_json:
        terminal.documents(_entries(session, turns, calls, replies))
    elif not turns:
        terminal.note(f"there are no messages in {session.label} yet.")
        terminal.note(f"next: turntree send {session.label} MESSAGE")
    else:
        terminal.page(_lines(terminal, turns))


def _entries(
    session: Session, turns: tuple[ThreadTurn, ...], calls: _Calls, replies: _Replies
) -> Iterator[dict[str, Any]]:
    """Yield one entry per message: its role, text, turn, time, model and request."""
    parent: str | None = None
    for placed in turns:
        turn = placed.turn
        told = iter(replies.get(turn.id, ()))
        for sequence, said in enumerate(turn.messages):
            if not isinstance(said, Message) or said.role not in _TALK:
                continue
            uuid = f"{turn.id}/{sequence}"
            message: dict[str, Any] = {"role": said.role, "content": _text(said)}
            entry: dict[str, Any] = {
                "uuid": uuid,
                "parentUuid": parent,
                "sessionId": session.id,
                "timestamp": said.at or turn.header.sealed_at,
                "message": message,
            }
            if said.role == "assistant":
                entry |= {"provider": turn.header.provider, **_request(next(told, None))}
                message |= {"model": turn.header.model}
                if sequence == len(turn.messages) - 1:
                    message["usage"] = _usage(calls.get(turn.id, []))
            yield entry
            parent = uuid


def _request(reply: ReplyDetails | None) -> dict[str, Any]:
    if reply is None:
        return {}
    told = (reply.request_id, reply.latency_ms, reply.situation)
    return dict(zip(("requestId", "latencyMs", "situation"), told, strict=True))


def _usage(calls: list[ModelCall]) -> dict[str, int]:
    used = [call.usage for call in calls]
    return {
        "inputTokens": sum(one.input for one in used),
        "outputTokens": sum(one.output for one in used),
        "cacheReadTokens": sum(one.cached_input for one in used),
        "cacheWriteTokens": sum(one.cache_write for one in used),
    }


def _lines(terminal: Terminal, turns: tuple[ThreadTurn, ...]) -> Iterator[str]:
    for placed in turns:
        for said in placed.turn.messages:
            if isinstance(said, Message) and said.role in _TALK and (text := _text(said)):
                model = placed.turn.header.model if said.role == "assistant" else None
                who = said.role if model is None else f"{said.role} ({clean(model)})"
                yield terminal.paint(who, "label")
                yield from clean_block(text)
                yield ""


def _text(said: Message) -> str:
    return "\n".join(part.text for part in said.parts if isinstance(part, Text))
