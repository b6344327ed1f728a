"""What a target resolved to: one head, how it was found, and what else was considered. Values."""

from dataclasses import field

from turntree.core.ids import Digest, Label, SessionId, TurnId
from turntree.core.value import value
from turntree.routing.target import Overrides, Target


@value
class Candidate:
    """A thread that was considered, and why."""

    turn: TurnId
    """The turn of it that fits best."""
    digest: Digest
    title: str
    session: SessionId | None
    label: Label | None
    head: TurnId
    """Where the thread would be continued: where its session stands, or the turn itself."""
    score: float
    words: float
    """How much of what was said in words the thread says too, rare words counting more; up to 1."""
    likeness: float
    """How much its most similar turn means the same; up to 1, and 0 if nobody compared."""
    matched: tuple[str, ...] = ()


@value
class Route:
    """Where a message goes."""

    target: Target
    head: TurnId | None
    """The turn it is appended to; None if it begins a thread."""
    session: SessionId | None
    """The session that moves with it; None if it forks off a turn, or begins a session."""
    label: Label | None
    """The session's label, also of one that does not exist yet."""
    steps: tuple[str, ...]
    """How it was found, a sentence each."""
    candidates: tuple[Candidate, ...] = ()
    """The threads that were considered, best first; only those that the sender may read."""
    overrides: Overrides = field(default_factory=Overrides)

    @property
    def begins(self) -> bool:
        """Whether a session has to be begun for it."""
        return self.session is None and self.label is not None

    @property
    def thread_key(self) -> str | None:
        """The address of the thread that it continues."""
        return None if self.head is None else f"turn:{self.head}"
