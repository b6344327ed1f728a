"""Values: the route that a target resolved to, and the candidates that were considered."""

from dataclasses import field

from turntree.core.canonical import Json
from turntree.core.ids import Digest, Label, SessionId, TurnId
from turntree.core.value import value
from turntree.routing.target import Overrides, Target, ToSession


@value
class Candidate:
    """A thread that was considered, and its score."""

    turn: TurnId
    """Its best matching turn."""
    digest: Digest
    title: str
    session: SessionId | None
    label: Label | None
    head: TurnId
    """Where the thread would be continued: its session's head, or the turn itself."""
    score: float
    words: float
    """Share of the message's words that occur in the thread, weighted by rarity; up to 1."""
    likeness: float
    """Similarity of its most similar turn; up to 1, and 0 without embeddings."""
    matched: tuple[str, ...] = ()


@value
class Route:
    """Where a message goes."""

    target: Target
    head: TurnId | None
    """The turn it is appended to; None if it starts a thread."""
    session: SessionId | None
    """The session that advances; None if the message forks off a turn or starts a session."""
    label: Label | None
    """The session's label, even if the session does not exist yet."""
    steps: tuple[str, ...]
    """How it was found, one sentence per step."""
    candidates: tuple[Candidate, ...] = ()
    """The threads that were considered and that the sender may read, best first."""
    overrides: Overrides = field(default_factory=Overrides)
    is_private: bool = False
    """Whether a session that begins is the sender's own, private one."""

    def to_json(self) -> dict[str, Json]:
        """Return what a run records of it: the kind of target, and how the session was found."""
        kind = type(self.target).__name__.removeprefix("To").lower()
        return {"target": kind, "session": self.label, "steps": list(self.steps)}

    @property
    def begins(self) -> bool:
        """Whether a session has to be created for it."""
        return self.session is None and self.label is not None

    @property
    def thread_key(self) -> str | None:
        """The address of the thread that it continues."""
        return None if self.head is None else f"turn:{self.head}"


def beginning(label: Label) -> Route:
    """Return the route of a message that begins a session."""
    steps = (f"no session has the label {label}", "it begins with this message")
    return Route(ToSession(label), None, None, label, steps)


@value
class HoldingSession:
    """A session whose thread holds or once held a turn."""

    session: SessionId
    label: Label
    head: TurnId | None
    is_active: bool
    is_closed: bool
    """Whether it is hidden from the principal that asked."""
