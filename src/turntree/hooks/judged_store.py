"""Decisions about calls of other coding agents, on PostgreSQL."""

from collections.abc import Mapping
from uuid import UUID

from turntree.core.canonical import Json, canonical
from turntree.core.ids import SessionId, Timestamp
from turntree.core.value import value
from turntree.db.database import Database
from turntree.db.sql import load_statements

SQL = load_statements(__file__)


@value
class JudgedStore:
    """Records decisions in the streams of imported sessions."""

    database: Database

    async def record(self, session: SessionId, at: Timestamp, data: Mapping[str, Json]) -> None:
        """Record a decision; recording it again changes nothing.

        Raises:
            NotFound: There is no such session, or it is hidden.
        """
        text = canonical(dict(data)).decode()
        await self.database.fetch_one(
            SQL["record_judged_call"], session=UUID(session), at=at, data=text
        )
