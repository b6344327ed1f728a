"""Store of permission events: granted, used and denied."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import orjson

from turntree.auth import audit, token
from turntree.auth.audit import (
    BEFORE_EVENTS,
    FIRST_FACT,
    Fact,
    FactPage,
    FactPosition,
    PermissionCheck,
)
from turntree.auth.member_store import ACCESS_CHANGES
from turntree.auth.token import TokenRecord
from turntree.core import event as events
from turntree.core.canonical import Json, canonical
from turntree.core.event import Event
from turntree.core.ids import SessionId, Timestamp, TurnId, instant
from turntree.core.principal import Principal
from turntree.core.value import value
from turntree.db.database import Database, as_uuid
from turntree.db.sql import load_statements
from turntree.ledger.store import SQL as LEDGER_SQL
from turntree.ledger.store import Ledger

SQL = load_statements(__file__)


@value
class PermissionStore:
    """The permission events of sessions and turns; append-only."""

    database: Database

    async def record(
        self, session: SessionId, kind: str, data: Mapping[str, Json], *, at: Timestamp
    ) -> None:
        """Append an event to a session's stream.

        Raises:
            NotFound: No such session.
        """
        events.group_of(kind)
        told = canonical(dict(data)).decode()
        await self.database.run(
            SQL["record_permission"], session=UUID(session), kind=kind, at=at, data=told
        )

    async def list_facts(
        self, *, session: SessionId | None = None, until: Timestamp | None = None
    ) -> list[Fact]:
        """Return the facts of one session or of all, with its runs and turns, in order of time."""
        entries = await self._list_entries(session, FIRST_FACT, None)
        found = (fact for _, facts in entries for fact in facts)
        # The sort is stable, so the facts of one turn or stream keep their own order.
        return sorted((fact for fact in found if until is None or fact.at < until), key=_moment)

    async def list_fact_page(
        self, *, session: SessionId | None = None, after: FactPosition | None, limit: int
    ) -> FactPage:
        """Return the facts of one session or of all after a position.

        They come in the order in which their sessions and turns began, however many there are.
        """
        entries = await self._list_entries(session, after or FIRST_FACT, limit + 1)
        # Each of the three statements returned one more than is needed to see whether there is one.
        page = sorted(entries, key=lambda entry: entry[0])[:limit]
        facts = tuple(fact for _, facts in page for fact in facts)
        return FactPage(facts, page[-1][0] if page and len(entries) > limit else None)

    async def _list_entries(
        self, session: SessionId | None, after: FactPosition, limit: int | None
    ) -> list[tuple[FactPosition, list[Fact]]]:
        """Return facts with their positions: of turns, then of events, then of shared sessions."""
        scope = {
            "session": as_uuid(session),
            "stream": UUID(after.stream),
            "limit": limit,
        }
        place = {"seq": after.seq}
        found: list[tuple[FactPosition, list[Fact]]] = []
        for turn, started, by, granted, tools, label in await self.database.fetch(
            SQL["list_permitted_turns"], **scope
        ):
            who = Principal.from_json(by)
            facts = audit.read_turn(label, instant(started), who, granted, tools)
            # Before the events of its run: it says what was granted to it.
            found.append((FactPosition(turn, BEFORE_EVENTS), facts))
        for stream, seq, body, label in await self.database.fetch(
            SQL["list_permission_events"], **scope, **place
        ):
            fact = audit.read_fact(events.from_json(orjson.loads(body)), label)
            found.append((FactPosition(stream, seq), [fact]))
        for stream, seq, body, label in await self.database.fetch(
            SQL["list_session_grants"], **scope, **place
        ):
            fact = audit.read_share(events.from_json(orjson.loads(body)), label)
            found.append((FactPosition(stream, seq), [fact]))
        return found

    async def list_turn_facts(self, turn: TurnId) -> list[Fact]:
        """Return what one turn was granted, used and was denied; empty if nothing is recorded."""
        rows = await self.database.fetch(SQL["list_turn_permission_events"], turn=UUID(turn))
        told = [audit.read_fact(events.from_json(orjson.loads(body)), None) for (body,) in rows]
        found = await self.database.fetch_one(SQL["find_turn_permissions"], turn=UUID(turn))
        if found is None or found[2] is None:
            # Such a turn was recorded elsewhere, where its tool calls prove no permission of ours.
            return told
        started, by, granted, used = found
        known = {fact.right for fact in told if isinstance(fact, PermissionCheck)}
        tools = [one.removeprefix("tool:") for one in used or () if one not in known]
        who = Principal.from_json(by)
        return [*audit.read_turn(None, instant(started), who, granted, tools), *told]

    async def note_issue(
        self, nonce: str, data: Mapping[str, Json], *, at: Timestamp, until: Timestamp
    ) -> None:
        """Record that a token was issued; the event is valid until the token expires.

        Raises:
            InvalidOperation: It has expired already.
        """
        said, stream = {**data, "nonce": nonce}, token.stream_of(nonce)
        # The nonce is new, so this is the first event of its stream.
        issued = Event(stream, 0, token.ISSUED, at, said, valid_from=at, valid_to=until)
        await Ledger(self.database).append(events.record(issued))

    async def note_revocation(self, nonce: str, data: Mapping[str, Json], *, at: Timestamp) -> None:
        """Record that a token was revoked."""
        told = canonical({**data, "nonce": nonce}).decode()
        stream = UUID(token.stream_of(nonce))
        with ACCESS_CHANGES.changing():
            await self.database.run(
                LEDGER_SQL["record_event"], stream=stream, kind=token.REVOKED, at=at, data=told
            )

    async def was_removed(self, principal: str, since: Timestamp | None) -> bool:
        """Whether a person was removed from the workspace since a time, or ever if it is None."""
        found = await self.database.fetch_one(SQL["was_removed"], principal=principal, since=since)
        return found is not None and bool(found[0])

    async def list_tokens(
        self, nonce: str | None = None, *, after: str | None = None, limit: int | None = None
    ) -> list[TokenRecord]:
        """Return the record of one token, or those after the token of a nonce: all, or a page."""
        rows = await self.database.fetch(
            SQL["list_token_events"],
            stream=None if nonce is None else as_uuid(token.stream_of(nonce)),
            after=None if after is None else as_uuid(token.stream_of(after)),
            limit=limit,
        )
        return token.fold_tokens(events.from_json(orjson.loads(body)) for (body,) in rows)

    async def list_personas(self, turn: TurnId) -> list[Mapping[str, Any]]:
        """Return the personas of a thread's turns, each once, newest first."""
        rows = await self.database.fetch(SQL["list_thread_personas"], turn=UUID(turn))
        return [document for (document,) in rows if document is not None]


def _moment(fact: Fact) -> Timestamp:
    return fact.at
