"""Verifies one thread: hashes every stored byte again, from the root to a head.

Knows where bytes are stored; ``core`` defines what proves a turn.
"""

from uuid import UUID

from turntree.core.canonical import digest_from_raw
from turntree.core.errors import NotFound
from turntree.core.ids import Digest, TurnId
from turntree.core.turn import Finding, verify
from turntree.db.database import Database
from turntree.db.sql import load_statements
from turntree.integrity.findings import VerifyResult

SQL = load_statements(__file__)

PAGE_TURNS_MAX = 500


async def verify_thread(database: Database, head: TurnId) -> VerifyResult:
    """Hash the stored bytes of a thread from its root to a head.

    Raises:
        NotFound: No such turn.
    """
    row = await database.fetch_one(SQL["turn_depth"], turn=UUID(head))
    if row is None:
        raise NotFound(f"there is no turn {head}")
    depth: int = row[0]
    verified = VerifyResult()
    parent: Digest | None = None
    for low in range(1, depth + 1, PAGE_TURNS_MAX):
        high = min(low + PAGE_TURNS_MAX - 1, depth)
        rows = await database.fetch(SQL["verify_page"], head=UUID(head), low=low, high=high)
        for turn, raw, body in rows:
            digest = digest_from_raw(bytes(raw))
            finding: Finding = "broken" if body is None else verify(body, digest, parent)
            match finding:
                case "whole":
                    verified.whole += 1
                case "erased":
                    verified.erased += 1
                case "broken":
                    verified.broken.append(TurnId(turn))
            # A missing turn is found at its child, whose parent digest differs from the last turn.
            parent = digest
    return verified
