"""``tag``: free words on turns."""

import shlex
from functools import partial
from typing import Any

import click

from turntree.cli.names import REVISION
from turntree.cli.opening import Opened, with_ledger
from turntree.cli.render import clean, digits, table, title
from turntree.cli.verb import Terminal, verb
from turntree.domain.thread import Placed


@verb()
@click.argument("revision", metavar="[REV]", required=False, type=REVISION)
@click.argument("words", metavar="[WORD]...", nargs=-1)
@click.option("--delete", "-d", "deletes", is_flag=True, help="Take the words off.")
@click.option("--list", "-l", "lists", is_flag=True, help="List tags, of REV or of all turns.")
def tag(
    terminal: Terminal, revision: str | None, words: tuple[str, ...], deletes: bool, lists: bool
) -> None:
    """Put words on a turn, take them off, or list them."""
    if revision == "" or not all(word.strip() for word in words):
        raise click.UsageError("a tag is a word; there is nothing between these quotes")
    if lists or not words:
        if deletes:
            raise click.UsageError("say which words to take off: turntree tag --delete REV WORD")
        _list(terminal, revision)
        return
    assert revision is not None, "click fills the first argument first"
    placed, changed = with_ledger(
        terminal, partial(_change, revision=revision, words=words, on=not deletes)
    )
    short, told = digits(placed.turn.digest), " ".join(words)
    verb_done = "no longer has" if deletes else "has"
    suffix = "" if changed else "   (as before)"
    off = "" if deletes else "--delete "
    undo = f"turntree tag {off}{short} {shlex.join(changed)}" if changed else None
    terminal.tell(
        f"{short} {verb_done} the tag{'s' if len(words) > 1 else ''} {clean(told)}{suffix}",
        {"turn": placed.turn.id, "digest": placed.turn.digest, "tags": list(words),
         "on": not deletes, "changed": bool(changed)},
        undo=undo,
    )  # fmt: skip


async def _change(
    opened: Opened, *, revision: str, words: tuple[str, ...], on: bool
) -> tuple[Placed, list[str]]:
    """Return the turn and the words that changed; the others were on or off already."""
    placed = await opened.tree.turns.get(revision)
    change = opened.tree.turns.tag if on else opened.tree.turns.untag
    return placed, [word for word in words if await change(placed.turn.id, word)]


def _list(terminal: Terminal, revision: str | None) -> None:
    async def act(opened: Opened) -> list[tuple[str, Placed]]:
        turn = None if revision is None else (await opened.tree.resolve(revision)).turn
        found = await opened.tree.turns.marks.list_tags(turn=turn)
        return [(word, await opened.tree.turns.get(at)) for at, word in found]

    tags = with_ledger(terminal, act)
    if terminal.as_json:
        terminal.documents(_document(word, placed) for word, placed in tags)
    elif tags:
        rows = [(clean(word), digits(p.turn.digest), title(p.turn)[:60]) for word, p in tags]
        terminal.page(table(rows))
    else:
        terminal.note("there are no tags here.")
        terminal.note("next: turntree tag HEAD WORD")


def _document(word: str, placed: Placed) -> dict[str, Any]:
    return {"tag": word, "turn": placed.turn.id, "digest": placed.turn.digest}
