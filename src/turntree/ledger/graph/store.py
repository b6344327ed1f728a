"""The ledger as a graph, on PostgreSQL: rows of the schema ``ledger`` become edges."""

from uuid import UUID

from turntree.core.ids import RunId, SessionId, Timestamp, TurnId, instant, unix_ms
from turntree.core.value import Facet, value
from turntree.db.database import Database, Row
from turntree.db.sql import load_statements
from turntree.ledger.graph.edge import (
    Edge,
    GraphNode,
    HistoryEvent,
    LineageStep,
    PolicyChange,
    RecordedMove,
    ResourceHolding,
    SessionOrigin,
    ToolCallLink,
)

SQL = load_statements(__file__)


@value
class GraphStore(Facet):
    """The ledger as a graph. It only reads."""

    database: Database

    async def list_from(self, node: str) -> list[Edge]:
        """Return the edges that leave a node, by its id."""
        return [_edge(row) for row in await self.database.fetch(SQL["edges_from"], node=node)]

    async def list_to(self, node: str) -> list[Edge]:
        """Return the edges that arrive at a node, by its id."""
        return [_edge(row) for row in await self.database.fetch(SQL["edges_to"], node=node)]

    async def list_history(self, run: RunId | TurnId | SessionId) -> list[HistoryEvent]:
        """Return the events of a run, a turn or a session, in order."""
        rows = await self.database.fetch(SQL["edge_history"], run=UUID(run))
        return [
            HistoryEvent(seq, GraphNode("Event", id), kind, instant(at), correlation, data)
            for seq, id, kind, at, correlation, data in rows
        ]

    async def list_lineage(self, node: str, *, depth_max: int = 10) -> list[LineageStep]:
        """Return what a node was derived from, and that in turn, nearest first."""
        rows = await self.database.fetch(SQL["edge_lineage"], node=node, depth_max=depth_max)
        return [
            LineageStep(step, GraphNode(from_kind, from_id), GraphNode(to_kind, to_id), how)
            for step, from_kind, from_id, to_kind, to_id, how in rows
        ]

    async def list_calls(self, run: RunId | TurnId) -> list[ToolCallLink]:
        """Return the tool calls of a run, each with its result and what it spawned."""
        rows = await self.database.fetch(SQL["edge_calls"], run=UUID(run))
        return [ToolCallLink(*row) for row in rows]

    async def list_held(self, at: Timestamp, *, holder: str | None = None) -> list[ResourceHolding]:
        """Return who owned, mounted or was attached to which resource at a time."""
        rows = await self.database.fetch(SQL["edge_resources"], at=unix_ms(at), holder=holder)
        return [
            ResourceHolding(
                kind, GraphNode(holder_kind, holder_id), resource, attributes,
                instant(since), _find_instant(until), instant(recorded),
            )
            for kind, holder_kind, holder_id, resource, attributes, since, until, recorded in rows
        ]  # fmt: skip

    async def list_policies(self, *, agent: str | None = None) -> list[PolicyChange]:
        """Return proposed and activated policies, oldest first."""
        rows = await self.database.fetch(SQL["edge_policies"], agent=agent)
        return [
            PolicyChange(
                what, policy, by, event,
                instant(since), _find_instant(until), instant(recorded), notes,
            )
            for what, policy, by, event, since, until, recorded, notes in rows
        ]  # fmt: skip

    async def list_ancestry(
        self, session: SessionId, *, depth_max: int = 20
    ) -> list[SessionOrigin]:
        """Return how a session was created, and the session it came from, nearest first."""
        rows = await self.database.fetch(
            SQL["edge_ancestry"], session=UUID(session), depth_max=depth_max
        )
        return [
            SessionOrigin(step, kind, one, parent, turn, call_id, mode, instant(at), by)
            for step, kind, one, parent, turn, call_id, mode, at, by in rows
        ]

    async def find_event(self, node: str) -> tuple[str, str | None] | None:
        """Return the kind of an event, by the id of its node, and who caused it if it says so."""
        stream, is_event, seq = node.partition("/event/")
        if not is_event:
            return None
        return await self.database.fetch_one(SQL["edge_event"], stream=UUID(stream), seq=int(seq))

    async def find_recording(self, turn: TurnId) -> RecordedMove | None:
        """Return the move that recorded a turn; None if it was imported."""
        row = await self.database.fetch_one(SQL["edge_recording"], turn=UUID(turn))
        if row is None:
            return None
        session, label, version, by, at = row
        return RecordedMove(RunId(turn), session, label, version, by, instant(at))


def _edge(row: Row) -> Edge:
    kind, from_kind, from_id, to_kind, to_id, attributes, recorded, since, until = row
    return Edge(
        kind,
        GraphNode(from_kind, from_id),
        GraphNode(to_kind, to_id),
        attributes,
        recorded_at=instant(recorded),
        valid_from=instant(since),
        valid_to=_find_instant(until),
    )


def _find_instant(ms: int | None) -> Timestamp | None:
    return None if ms is None else instant(ms)
