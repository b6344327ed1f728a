"""``tag``: add, remove and list tags of turns and programs.

``tag add``, ``tag remove`` and ``tag list`` take any node. Without one of those words, the
arguments are a turn and its new tags: ``tag HEAD good``.
"""

from functools import partial
from typing import Any

import click
from click.shell_completion import CompletionItem

from turntree.cli.command import Terminal, verb
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.output.text import clean, digits, table, title
from turntree.cli.param_types import REVISION
from turntree.cli.programs.nodes import ListedNode, find_nodes, get_node
from turntree.core.errors import InvalidOperation
from turntree.core.ids import TurnId
from turntree.core.thread import ThreadTurn
from turntree.system.shell_words import positional, quoted

AT_ONCE = "turn"
"""The default command; it is not listed."""


class TagGroup(click.Group):
    """A group whose subcommand may be left out."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands that have to be named."""
        return [name for name in super().list_commands(ctx) if name != AT_ONCE]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the default command where none is named."""
        # During completion the first word is still missing, not left out.
        is_asked = ctx.resilient_parsing and not args
        if not is_asked and (not args or args[0] not in {*self.commands, *ctx.help_option_names}):
            args = [AT_ONCE, *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the subcommands, and the revisions that may take their position."""
        at_once = self.commands[AT_ONCE].params[0]
        offered = super().shell_complete(ctx, incomplete)
        return [*offered, *REVISION.shell_complete(ctx, at_once, incomplete)]


@click.group(cls=TagGroup)
def tag() -> None:
    """Add, remove and list tags of turns and programs.

    A NODE is a program (@(researcher), researcher) or any REV. For turns there is a shorter way:
    `tag REV TAG...` adds tags, `tag --delete REV TAG...` removes them, `tag [REV]` lists them.
    """


@verb()
@click.argument("node", metavar="NODE", type=REVISION)
@click.argument("words", metavar="WORD...", nargs=-1, required=True)
def add(terminal: Terminal, node: str, words: tuple[str, ...]) -> None:
    """Add tags to a turn or a program."""
    _mark(terminal, node, words, on=True)


@verb()
@click.argument("node", metavar="NODE", type=REVISION)
@click.argument("words", metavar="WORD...", nargs=-1, required=True)
def remove(terminal: Terminal, node: str, words: tuple[str, ...]) -> None:
    """Remove tags from a turn or a program."""
    _mark(terminal, node, words, on=False)


@verb("list")
@click.argument("node", metavar="[NODE]", required=False, type=REVISION)
def list_(terminal: Terminal, node: str | None) -> None:
    """List the tags of a turn or a program, or all tags of turns."""
    if node is None:
        _list(terminal, None)
        return

    async def act(opened: CliContext) -> tuple[ListedNode, list[str]]:
        found = await get_node(opened, node)
        if found.kind == "turn":
            pairs = await opened.tree.turns.marks.list_tags(turn=TurnId(found.id))
            return found, [word for _, word in pairs]
        return found, list((await opened.tree.programs.get(found.id)).tags)

    found, words = with_ledger(terminal, act)
    if terminal.as_json:
        terminal.documents(
            {"tag": word, "node": found.id, "kind": found.kind, "name": found.name}
            for word in words
        )
    elif words:
        terminal.page(table([(clean(word), found.name, found.title) for word in words]))
    else:
        terminal.note(f"{found.name} has no tags.")
        terminal.note(f"next: turntree tag add {found.name} WORD")


def _mark(terminal: Terminal, text: str, words: tuple[str, ...], *, on: bool) -> None:
    if not all(word.strip() for word in words):
        raise InvalidOperation("a tag cannot be empty")

    async def act(opened: CliContext) -> tuple[ListedNode, list[str]]:
        node, turns = await get_node(opened, text), opened.tree.turns
        signed: dict[str, Any] = {"by": str(turns.by), "at": turns.world.now()}
        marks = turns.marks
        return node, [w for w in words if await marks.set_tag(node.id, w, on=on, **signed)]

    node, changed = with_ledger(terminal, act)
    done, back = ("has", "remove") if on else ("no longer has", "add")
    called = quoted(node.name)
    terminal.tell(
        f"{node.name} {done} the tag{'s' if len(words) > 1 else ''} {clean(' '.join(words))}"
        + ("" if changed else "   (as before)"),
        {"node": node.id, "kind": node.kind, "name": node.name, "tags": list(words), "on": on,
         "changed": bool(changed)},
        undo=f"turntree tag {back} {called} {positional(*changed)}" if changed else None,
    )  # fmt: skip


@verb(AT_ONCE)
@click.argument("revision", metavar="[REV]", required=False, type=REVISION)
@click.argument("words", metavar="[WORD]...", nargs=-1)
@click.option("--delete", "-d", "deletes", is_flag=True, help="Removal of the tags.")
@click.option("--list", "-l", "lists", is_flag=True, help="List of tags, of REV or of all turns.")
def at_once(
    terminal: Terminal, revision: str | None, words: tuple[str, ...], deletes: bool, lists: bool
) -> None:
    """Add, remove or list tags of a turn."""
    if revision == "" or not all(word.strip() for word in words):
        raise click.UsageError("a tag cannot be empty")
    if lists or not words:
        if deletes:
            raise click.UsageError("name the tags to remove: turntree tag --delete REV TAG")
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
    undo = f"turntree tag {off}{short} {positional(*changed)}" if changed else None
    terminal.tell(
        f"{short} {verb_done} the tag{'s' if len(words) > 1 else ''} {clean(told)}{suffix}",
        {"turn": placed.turn.id, "digest": placed.turn.digest, "tags": list(words),
         "on": not deletes, "changed": bool(changed)},
        undo=undo,
    )  # fmt: skip


async def _change(
    opened: CliContext, *, revision: str, words: tuple[str, ...], on: bool
) -> tuple[ThreadTurn, list[str]]:
    """Return the turn and the tags that changed; the others were set or unset already."""
    placed = await opened.tree.turns.get(revision)
    change = opened.tree.turns.tag if on else opened.tree.turns.untag
    return placed, [word for word in words if await change(placed.turn.id, word)]


def _list(terminal: Terminal, revision: str | None) -> None:
    async def act(opened: CliContext) -> list[tuple[str, ThreadTurn]]:
        turn = None if revision is None else (await opened.tree.resolve(revision)).turn
        found = await opened.tree.turns.marks.list_tags(turn=turn)
        return [(word, await opened.tree.turns.get(at)) for at, word in found]

    tags = with_ledger(terminal, act)
    if terminal.as_json:
        terminal.documents(
            {"tag": word, "turn": placed.turn.id, "digest": placed.turn.digest}
            for word, placed in tags
        )
    elif tags:
        rows = [(clean(word), digits(p.turn.digest), title(p.turn)[:60]) for word, p in tags]
        terminal.page(table(rows))
    else:
        terminal.note("there are no tags here.")
        terminal.note("next: turntree tag HEAD WORD")


for command in (add, remove, list_, find_nodes, at_once):
    tag.add_command(command)
