"""Bugs put into the ledger's functions on purpose: a check that cannot find them checks nothing.

Each is made from the functions' own text by substitution and installed in a database of its own.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import psycopg

from turntree.db.sql import load_files


@dataclass(frozen=True, slots=True)
class Plant:
    """A bug: what it replaces in the functions' text."""

    name: str
    swaps: Sequence[tuple[str, str]]


_UNLOCKED = (r"(s\.id = p_session) FOR NO KEY UPDATE;", r"\1;")

_COMPARES = "ELSIF v_head IS DISTINCT FROM p_parent AND p_session IS NOT NULL THEN"
_SAYS = r"(  INSERT INTO turntree\.turn_bodies \(workspace_id, turn_id, header, body\))"
_HOLDS = (
    "  SELECT s.version + 1, s.event_seq INTO version, v_seq FROM turntree.sessions s"
    " WHERE s.workspace_id = p_ws AND s.id = p_session FOR NO KEY UPDATE;"
)

LOST_UPDATE = Plant(
    "lost update",
    # Nobody waits and nobody compares: the last writer wins.
    (_UNLOCKED, (_COMPARES, "ELSIF false THEN")),
)
OFF_BY_ONE = Plant("off by one", (("v_fork < p_depth", "v_fork <= p_depth"),))
MISSING_LOCK = Plant(
    "missing lock",
    # The head is compared first and the session held only when the turn stands: somebody may
    # have come in between.
    (_UNLOCKED, (_SAYS, _HOLDS + r"\n\1")),
)
PLANTS = (LOST_UPDATE, OFF_BY_ONE, MISSING_LOCK)


def broken_functions(plant: Plant) -> str:
    """Return the text of all functions with a bug in one of them.

    Raises:
        LookupError: The functions changed, and the bug no longer fits.
    """
    text = "\n".join(text for _, text in load_files("functions"))
    for wanted, instead in plant.swaps:
        text, count = re.subn(wanted, instead, text)
        if not count:
            raise LookupError(f"{plant.name}: {wanted!r} stands nowhere in the functions")
    return text


async def install(conninfo: str, plant: Plant) -> None:
    """Put a bug into a database."""
    async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as connection:
        await connection.execute(broken_functions(plant).encode())
