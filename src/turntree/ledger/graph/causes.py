"""Explains why a turn exists: walks back over the edges, up to a limit.

Knows which edges are causes and where the walk ends, but not how a cause is displayed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from turntree.core.errors import NotFound
from turntree.core.ids import Label, Timestamp, TurnId
from turntree.core.thread import ThreadTurn
from turntree.core.value import Facet, value
from turntree.ledger.graph.edge import Edge, EdgeKind, GraphNode, RecordedMove, SessionOrigin
from turntree.ledger.graph.store import GraphStore
from turntree.ledger.session_store import SessionStore
from turntree.ledger.thread_store import ThreadStore

DEPTH_DEFAULT: Final = 3
LIMIT_DEFAULT: Final = 50
MESSAGE: Final = "session.message"
"""The kind of the event that a queued message leaves in the stream of its session."""

How = Literal["follows", "forked", "spawned", "retries", "derives", "started", "summarizes"]
Bound = Literal["depth", "limit"]
_OTHERS: Final[Mapping[str, How]] = {
    "retries": "retries",
    "derives": "derives",
    "started": "started",
}
"""What a turn may come from besides its parent."""


@value
class Cause:
    """One step back, and the causes before it."""

    how: How
    edge: EdgeKind
    node: GraphNode
    placed: ThreadTurn | None = None
    """The turn it leads to; None if it leads to something else."""
    session: Label | None = None
    """The session that was created by a fork or a spawn."""
    event: str | None = None
    """The kind of the event that it leads to."""
    by: str | None = None
    at: Timestamp | None = None
    call_id: str | None = None
    tool: str | None = None
    task: str | None = None
    turns: int = 1
    """Number of turns that a summary covers."""
    seen: bool = False
    """Whether it is shown elsewhere in the tree, with its own causes."""
    causes: "tuple[Cause, ...]" = ()


@value
class Explanation:
    """A turn and the tree of its causes."""

    placed: ThreadTurn
    recording: RecordedMove | None
    causes: tuple[Cause, ...]
    bound: Bound | None
    """The limit at which the walk stopped; None if it is complete."""


@value
class Causes(Facet):
    """``tree.causes``: from a turn back to what led to it."""

    edges: GraphStore
    threads: ThreadStore
    sessions: SessionStore

    async def explain(
        self, turn: TurnId, *, depth_max: int = DEPTH_DEFAULT, limit: int = LIMIT_DEFAULT
    ) -> Explanation:
        """Return the causes of a turn, up to ``depth_max`` steps back and ``limit`` causes in all.

        Raises:
            NotFound: No such turn.
        """
        start = await self.threads.get_turn(turn)
        walk = _Walk(self, limit, {turn})
        causes = await walk.go(start, depth_max)
        return Explanation(start, await self.edges.find_recording(turn), causes, walk.bound)

    async def list_causes(self, placed: ThreadTurn) -> list[Cause]:
        """Return the direct causes of a turn; its origin comes last."""
        turn = placed.turn.id
        left = await self.edges.list_from(turn)
        causes = [_other(edge) for edge in left if _is_other(edge)]
        if (compaction := placed.turn.header.compaction) is not None:
            through = GraphNode("Run", compaction.summarized_through)
            count = compaction.turns_summarized
            causes.insert(0, Cause("summarizes", "SUMMARIZES", through, turns=count))
        if (origin := await self._find_origin(placed)) is not None:
            causes.append(origin)
        return [await self._fill(cause) for cause in causes]

    async def _find_origin(self, thread_turn: ThreadTurn) -> Cause | None:
        """Return the turn that a turn continues: in its session, or where that was created."""
        recording = await self.edges.find_recording(thread_turn.turn.id)
        began = None if recording is None else await self._find_beginning(thread_turn, recording)
        if began is not None and recording is not None:
            return await self._tell_beginning(began, recording)
        if thread_turn.parent is None:
            return None
        return Cause("follows", "DERIVED_FROM", GraphNode("Run", thread_turn.parent))

    async def _find_beginning(
        self, thread_turn: ThreadTurn, recording: RecordedMove
    ) -> SessionOrigin | None:
        """Return how a session was created, if a turn is the first that was recorded in it."""
        for descent in await self.edges.list_ancestry(recording.session, depth_max=1):
            is_first = thread_turn.parent is None or descent.turn == thread_turn.parent
            if is_first or (recording.version == 2 and descent.kind == "SPAWNED_FROM"):  # noqa: PLR2004
                return descent
        return None

    async def _tell_beginning(self, began: SessionOrigin, recording: RecordedMove) -> Cause | None:
        if began.turn is None:
            return None
        cause = Cause(
            "forked", "FORKED_FROM", GraphNode("Run", began.turn), session=recording.label,
            by=began.by, at=began.at,
        )  # fmt: skip
        if began.kind == "FORKED_FROM":
            return cause
        calls = {call.call_id: call for call in await self.edges.list_calls(began.turn)}
        call = None if began.call_id is None else calls.get(began.call_id)
        spawn = (await self.sessions.get(began.session)).spawn
        return replace(
            cause, how="spawned", edge="SPAWNED_FROM", call_id=began.call_id,
            tool=None if call is None else call.tool, task=None if spawn is None else spawn.task,
        )  # fmt: skip

    async def _fill(self, cause: Cause) -> Cause:
        if cause.node.kind == "Event":
            found = await self.edges.find_event(cause.node.id)
            kind, by = found or (None, None)
            return replace(cause, event=kind, by=by)
        if cause.node.kind != "Run":
            return cause
        try:
            return replace(cause, placed=await self.threads.get_turn(TurnId(cause.node.id)))
        except NotFound:
            return cause  # A header may name a turn that is not stored here.


@dataclass(slots=True)
class _Walk:
    """One walk: what it has shown, and how much it may still show."""

    causes: Causes
    left: int
    seen: set[str] = field(default_factory=set[str])
    bound: Bound | None = None

    async def go(self, placed: ThreadTurn, steps: int) -> tuple[Cause, ...]:
        causes = await self.causes.list_causes(placed)
        if causes and steps == 0:
            self.bound = self.bound or "depth"
            return ()
        result: list[Cause] = []
        for cause in causes:
            if self.left == 0:
                self.bound = "limit"
                break
            self.left -= 1
            result.append(await self._follow(cause, steps))
        return tuple(result)

    async def _follow(self, cause: Cause, steps: int) -> Cause:
        # The turns that a summary covers are reached anyway, through the parent of its turn.
        if cause.placed is None or cause.how == "summarizes":
            return cause
        if cause.node.id in self.seen:
            return replace(cause, seen=True)
        self.seen.add(cause.node.id)
        return replace(cause, causes=await self.go(cause.placed, steps - 1))


def _is_other(edge: Edge) -> bool:
    return edge.kind == "DERIVED_FROM" and edge.attributes.get("how") in _OTHERS


def _other(edge: Edge) -> Cause:
    return Cause(_OTHERS[edge.attributes["how"]], "DERIVED_FROM", edge.target, at=edge.recorded_at)
