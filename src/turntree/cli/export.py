"""``export``: the ledger as text that proves itself."""

import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import IO, Final
from uuid import UUID

import click

from turntree.adapters.exporters.jsonl import session_line, turn_line
from turntree.cli.legend import list_sessions
from turntree.cli.names import REVISION
from turntree.cli.opening import Opened, with_ledger
from turntree.cli.verb import Terminal, verb
from turntree.domain.canonical import digest_from_raw
from turntree.domain.errors import Refused
from turntree.domain.ids import Digest, TurnId
from turntree.domain.session import Session
from turntree.domain.thread import Placed
from turntree.domain.turn import read

PAGE_TURNS_MAX: Final = 500
BEGINNING: Final = UUID(int=0)


@verb()
@click.argument("revision", metavar="[REV]", required=False, type=REVISION)
@click.option("--all", "-a", "everything", is_flag=True, help="Every turn and every session.")
@click.option("--as", "form", type=click.Choice(["jsonl"]), default="jsonl", show_default=True,
              help="The format.")  # fmt: skip
@click.option("-o", "--output", metavar="FILE", default="-", help="Write to a file, not to stdout.")
def export(
    terminal: Terminal, revision: str | None, everything: bool, form: str, output: str
) -> None:
    """Write turns and sessions as one JSON document a line.

    Turns come root first, then the sessions whose heads are among them. Each turn carries the
    header its digest was taken from, so an export can be proven without Turntree.
    """
    del form
    if everything == (revision is not None):
        raise click.UsageError("say what to export: a REV, or --all")
    if output == "-":
        turns, sessions = _write(terminal, sys.stdout, revision)
    else:
        try:
            with click.open_file(output, "w", encoding="utf-8", atomic=True) as file:
                turns, sessions = _write(terminal, file, revision)
        except OSError as error:
            raise Refused(f"{output} cannot be written: {error.strerror}") from error
    terminal.note(f"{turns} turns and {sessions} sessions written")


def _write(terminal: Terminal, file: IO[str], revision: str | None) -> tuple[int, int]:
    return with_ledger(terminal, partial(_export, file=file, revision=revision))


async def _export(opened: Opened, *, file: IO[str], revision: str | None) -> tuple[int, int]:
    written: set[TurnId] = set()
    source = _read_all(opened) if revision is None else _read_thread(opened, revision)
    async with aclosing(source) as turns:
        async for placed in turns:
            click.echo(turn_line(placed), file=file)
            written.add(placed.turn.id)
    sessions = await _list_standing(opened, written, everything=revision is None)
    for session in sessions:
        click.echo(session_line(session), file=file)
    return len(written), len(sessions)


async def _list_standing(opened: Opened, turns: set[TurnId], *, everything: bool) -> list[Session]:
    found = await list_sessions(opened, with_archived=True)
    return [session for session in found if everything or session.head in turns]


async def _read_thread(opened: Opened, revision: str) -> AsyncGenerator[Placed, None]:
    head = await opened.tree.turns.get(revision)
    for low in range(1, head.depth + 1, PAGE_TURNS_MAX):
        high = min(low + PAGE_TURNS_MAX - 1, head.depth)
        for placed in await opened.tree.threads.page(head.turn.id, low=low, high=high):
            yield placed


async def _read_all(opened: Opened) -> AsyncGenerator[Placed, None]:
    """Yield every turn by depth, so that a parent comes before its children."""
    ids: dict[Digest, TurnId] = {}
    depth, after = 0, BEGINNING
    while rows := await opened.database.fetch(
        "export_turns", depth=depth, after=after, limit=PAGE_TURNS_MAX
    ):
        for at, id, raw, body in rows:
            turn = read(body, digest_from_raw(bytes(raw)))
            ids[turn.digest] = TurnId(id)
            parent = turn.header.parent
            yield Placed(turn, at, None if parent is None else ids[parent])
        depth, after = rows[-1][0], UUID(rows[-1][1])
