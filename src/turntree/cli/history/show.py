"""``show``: one turn, in as much detail as requested.

Gathers the data; ``cli.output.turn`` prints it.
"""

import json
from functools import partial
from typing import Any

import click

from turntree.cli.command import Terminal, verb
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.output.annotations import list_call_documents, name_sessions, read_legend
from turntree.cli.output.parts import Level, draw_part, find_part, part_document
from turntree.cli.output.turn import TurnView, draw_turn
from turntree.cli.param_types import REVISION
from turntree.core.canonical import is_digest
from turntree.core.errors import NotFound
from turntree.core.ids import Digest, TurnId
from turntree.core.message import Message, Text, part_from_json
from turntree.transcripts.exporters.jsonl import header_document, message_document

POLICY_URI = "resource://approval-policy/policy.py"
"""Shows the source of the policy in force, which edges of the graph name so."""
SESSIONS_READ_MAX = 20
CHILDREN_READ_MAX = 20


@verb()
@click.argument("revision", metavar="[REV]", default="HEAD", type=REVISION)
@click.option(
    "--short",
    "level",
    flag_value="short",
    help="Address and first line of each message only.",
)
@click.option("--full", "level", flag_value="full", help="Everything, including tool results.")
@click.option("--raw", "level", flag_value="raw", help="Raw bytes, as stored and hashed.")
@click.option(
    "--context",
    "-c",
    "in_context",
    is_flag=True,
    help="What the model saw for the turn, call by call.",
)
@click.option("--call", "number", metavar="N", type=click.IntRange(1),
              help="One call of --context in full, by its number.")  # fmt: skip
def show(
    terminal: Terminal, revision: str, level: Level | None, in_context: bool, number: int | None
) -> None:
    """Show a turn: its author, messages, tool calls and children.

    resource://approval-policy/policy.py is the source of the policy in force.

    REV:tool/2 shows one tool call of a turn, by its number; REV:msg/0 one message. A digest that is
    not a turn's shows the object of that digest.

    --context shows the instructions and tools, the thread, and the turn's own messages as the model
    saw them. Prompts are not stored: they are assembled again from what was recorded, and each
    request's digest shows whether the result is identical. With --json the prompts are complete.
    """
    if in_context or number is not None:
        from turntree.cli.history.context import show_context

        show_context(terminal, revision, number)
        return
    if revision == POLICY_URI:
        shown_policy = with_ledger(terminal, _read_policy)
        if terminal.as_json:
            terminal.document(shown_policy)
        else:
            terminal.say(shown_policy["source"].rstrip("\n"))
        return
    if level == "raw":
        terminal.say(with_ledger(terminal, partial(_read_raw, revision=revision)))
        return
    shown = with_ledger(terminal, partial(_read, revision=revision))
    if isinstance(shown, bytes):
        _show_object(terminal, shown)
    elif shown.part is not None:
        part = find_part(shown.placed.turn, shown.part)
        if terminal.as_json:
            terminal.document(part_document(part))
        else:
            terminal.page(draw_part(part))
    elif terminal.as_json:
        terminal.document(view_document(shown))
    else:
        terminal.page(draw_turn(shown, level or "normal", terminal))


async def _read_policy(opened: CliContext) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(await opened.tree.policies.get_active())


async def _read_raw(opened: CliContext, *, revision: str) -> str:
    turn = (await opened.tree.resolve(revision)).turn
    stored = await opened.tree.turns.threads.find_stored(turn)
    assert stored is not None, "it was just resolved"
    return stored[1]


def _show_object(terminal: Terminal, data: bytes) -> None:
    """Show a part that is stored as an object, or say how large something else is."""
    try:
        document = json.loads(data)
        part = part_from_json(document)
    except (ValueError, KeyError, TypeError, RecursionError):
        document, part = {"size_bytes": len(data)}, Text(f"{len(data):,} bytes, not a text")
    if terminal.as_json:
        terminal.document(document)
    else:
        terminal.page(draw_part(Message("assistant", (part,))))


async def _read(opened: CliContext, *, revision: str) -> TurnView | bytes:
    tree = opened.tree
    try:
        found = await tree.resolve(revision)
    except NotFound:
        if not is_digest(revision):
            raise
        return await tree.ledger.get_object(Digest(revision))
    (placed,) = await tree.turns.restore([await tree.turns.get(found.turn)])
    children = await tree.turns.list_children(found.turn)
    read = [await tree.turns.get(child) for child in children[:CHILDREN_READ_MAX]]
    parent = None if placed.parent is None else await tree.turns.get(placed.parent)
    near = [placed, *read, *([] if parent is None else [parent])]
    holding = await tree.turns.threads.list_sessions_holding(found.turn)
    used, _ = await tree.threads.usage(found.turn)
    pins = tuple(await tree.resources.pins.list_pins([found.turn]))
    late = await tree.resources.pins.list_late([one.pin.turn for one in pins])
    return TurnView(
        placed=placed,
        parent=parent,
        children=tuple(read),
        children_count=len(children),
        legend=await read_legend(opened, near),
        holding=tuple(await name_sessions(opened, holding[:SESSIONS_READ_MAX])),
        holding_count=len(holding),
        thread_used=used,
        calls=tuple(await list_call_documents(opened, found.turn)),
        spawned=await _list_spawned(opened, found.turn),
        part=found.part,
        pins=pins,
        late_ms=late.get(found.turn),
    )


async def _list_spawned(opened: CliContext, turn: TurnId) -> tuple[str, ...]:
    spawned = await opened.tree.sessions.ledger.list_spawned(turn)
    found = await name_sessions(opened, spawned)
    return tuple(session.label for session in found)


def view_document(shown: TurnView) -> dict[str, Any]:
    """Return a turn and all that is shown with it as a JSON document."""
    turn = shown.placed.turn
    return {
        **shown.legend.document(shown.placed),
        "held_by": [session.label for session in shown.holding],
        "children": [child.turn.id for child in shown.children],
        "spawned": list(shown.spawned),
        "calls": list(shown.calls),
        "pins": [
            {
                "resource": pinned.resource.id,
                "place": pinned.resource.place,
                "before": None if pinned.before is None else pinned.before.external.id,
                "after": pinned.after.external.id,
                "size": pinned.after.size,
            }
            for pinned in shown.pins
        ],
        "late_ms": shown.late_ms,
        "thread_tokens": shown.thread_used.total,
        "header": header_document(turn),
        "messages": [message_document(said) for said in turn.messages],
    }
