"""The turns of a folder that can be taken back: find and print them.

Apart from what takes one back, because most of the time of a list goes into imports.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from turntree.cli.command import Terminal
from turntree.cli.context import CliContext
from turntree.cli.hints import command_hint
from turntree.cli.output.changes import SIGNS, diff_document, shown_path
from turntree.cli.output.text import age, clean, cut, digits, table, title, who
from turntree.core.errors import NotFound
from turntree.core.ids import Timestamp, TurnId
from turntree.core.thread import ThreadTurn
from turntree.core.value import value
from turntree.resources.file_diff import FileDiff
from turntree.resources.plans.merge_log import MERGES_READ_MAX, read_merges, sort_merges
from turntree.resources.plans.store import PlanStore
from turntree.resources.resource import Resource

TITLE_MAX: Final = 40
FILES_SHOWN_MAX: Final = 3
TURNS_READ_MAX: Final = 500
"""Turns that changed no file are not listed; at most this many are looked at."""


@value
class ShownTurn:
    """A turn that worked in a folder, and what changed while it ran."""

    placed: ThreadTurn
    ended_at: Timestamp
    diffs: tuple[FileDiff, ...]
    is_reverted: bool


def draw_turns(shown: Sequence[ShownTurn], now: Timestamp, terminal: Terminal) -> list[str]:
    """Return one line per turn: its number, age, agent, title and files."""
    rows = [
        (
            f"{number:>3}",
            age(one.ended_at, now),
            who(one.placed.turn.header.by),
            digits(one.placed.turn.digest),
            cut(title(one.placed.turn), TITLE_MAX, ellipsis=terminal.spell("…")),
            _files(one, terminal),
        )
        for number, one in enumerate(shown, start=1)
    ]
    return table(rows)


def turn_document(one: ShownTurn) -> dict[str, Any]:
    """Return a turn that can be taken back as a JSON document."""
    turn = one.placed.turn
    return {
        "turn": turn.id,
        "digest": turn.digest,
        "title": title(turn),
        "by": who(turn.header.by),
        "ended_at": one.ended_at,
        "reverted": one.is_reverted,
        "changes": [diff_document(diff, with_lines=False) for diff in one.diffs],
    }


async def list_turns(
    opened: CliContext, *, limit: int, with_lines: bool
) -> tuple[list[ShownTurn], Timestamp]:
    """Return the last turns that changed files in this folder, newest first, and the time.

    Raises:
        NotFound: There are none.
    """
    tree = opened.tree
    for resource in await opened.tree.resources.list_around(str(Path.cwd())):
        taken_back = await _list_reverted(opened, resource)
        found: list[ShownTurn] = []
        for pinned in await tree.resources.pins.list_newest(resource.id, limit=TURNS_READ_MAX):
            if pinned.before is None or pinned.before.external == pinned.after.external:
                continue
            diffs = await tree.files.diff(
                resource, pinned.before.external, pinned.after.external, with_lines=with_lines
            )
            placed = await tree.resources.threads.get_turn(pinned.pin.turn)
            is_reverted = pinned.pin.turn in taken_back
            found.append(ShownTurn(placed, pinned.pin.ended_at, tuple(diffs), is_reverted))
            if len(found) == limit:
                break
        if found:
            return found, opened.now
    raise NotFound(
        "no turn changed files in this folder, as far as snapshots show",
        hint=command_hint("turntree hook status"),
    )


async def _list_reverted(opened: CliContext, resource: Resource) -> frozenset[TurnId]:
    # Not by the facet of plans: loading all that it takes to make one costs as much as the list.
    facts = PlanStore(opened.database) if opened.is_online else opened.tree.plans.facts
    merges = read_merges(await facts.list_merges(limit=MERGES_READ_MAX), resource.id)
    done, _ = sort_merges(merges)
    return frozenset(turn for one in done if one.state.plan.kind == "revert" for turn in one.turns)


def _files(one: ShownTurn, terminal: Terminal) -> str:
    named = [f"{SIGNS[diff.kind]} {clean(shown_path(diff.path))}" for diff in one.diffs]
    more = len(named) - FILES_SHOWN_MAX
    listed = "  ".join(named[:FILES_SHOWN_MAX])
    if more > 0:
        listed += terminal.spell(f"  … {more:,} more")
    return f"{listed}   (taken back)" if one.is_reverted else listed
