"""Sessions written for other tools, on PostgreSQL. See ``ports.imports``."""

from dataclasses import dataclass
from uuid import UUID

from turntree.domain.canonical import canonical, digest_from_raw
from turntree.domain.graft import Graft
from turntree.domain.ids import Instant, TurnId
from turntree.domain.transcript import Planted
from turntree.ports.imports import Checkout
from turntree.store.database import Database


@dataclass(frozen=True, slots=True)
class PostgresCheckouts:
    """What was checked out, and how it is known again."""

    database: Database

    async def note(self, checkout: Checkout, *, by: str, at: Instant) -> None:
        """Note a checkout, and in the same transaction the fact that says so."""
        told = {"tool": checkout.origin, "session": checkout.session, "by": by}
        await self.database.run(
            "note_checkout",
            turn=UUID(checkout.turn),
            origin=checkout.origin,
            session=checkout.session,
            file=checkout.file,
            bytes=checkout.bytes,
            mark=checkout.mark,
            last=checkout.last,
            by=by,
            at=at,
            data=canonical(told).decode(),
        )

    async def list_all(self) -> list[tuple[str, Graft]]:
        """Return what was ever checked out: the tool, and how its session is known again."""
        return [
            (origin, Graft(session, file, size, mark, _planted(*turn), last))
            for origin, session, file, size, mark, last, *turn in await self.database.fetch(
                "list_checkouts"
            )
        ]


def _planted(turn: str, digest: bytes, depth: int) -> Planted:
    return Planted(TurnId(turn), digest_from_raw(bytes(digest)), depth)
