"""Follow a session's move: what changed, and how to undo it."""

from turntree.cli.context import CliContext
from turntree.cli.output.text import digits
from turntree.core.ids import Digest, TurnId
from turntree.core.session import Session
from turntree.core.thread import MoveResult
from turntree.core.value import value


@value
class Move:
    """A move as it is printed: with the turns' digests instead of their ids."""

    version: int
    before: Digest | None
    after: Digest | None

    @property
    def left(self) -> str:
        """The short digest of the turn that the session left."""
        return digits(self.before)


async def follow(opened: CliContext, moved: MoveResult) -> tuple[Session, Move]:
    """Return the session that moved, with the digests of its old and new head."""
    session = await opened.tree.sessions.ledger.get(moved.session)
    before, after = [await find_digest(opened, turn) for turn in (moved.before, moved.head)]
    return session, Move(moved.version, before, after)


async def find_digest(opened: CliContext, turn: TurnId | None) -> Digest | None:
    return None if turn is None else (await opened.tree.turns.get(turn)).turn.digest
