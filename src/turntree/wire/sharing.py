"""A thread as one page for another person, and what was removed from it."""

from turntree.core.value import value


@value
class ShareQuery:
    """A thread to share, up to a turn."""

    revision: str
    session: str | None = None
    """The session in which it is read: if the turn is its head, the page is named after it."""


@value
class RemovedFromMessage:
    """A message that held secrets and is not in the page."""

    turn: str
    """Short."""
    message: int
    """Its place in the turn, from 1."""
    secrets: int


@value
class CleanedFile:
    """A file whose secrets were removed."""

    path: str
    secrets: int


@value
class RemovedParts:
    """What is not in a shared page."""

    secrets: int
    messages: tuple[RemovedFromMessage, ...]
    files: tuple[CleanedFile, ...]
    files_left_out: tuple[str, ...]
    """Too large to check, or binary with a secret."""
    turns_without_events: int
    """Turns whose model calls are left out because they held a secret."""
    snapshots_missing: int
    """Snapshots whose files are not stored on this machine."""


@value
class SharedPage:
    """A page that opens in any browser, and that another ledger can import."""

    name: str
    """The name of the file."""
    page: str
    """HTML that loads nothing."""
    bytes: int
    turns: int
    removed: RemovedParts
    command: str
    """The command that writes the same file."""
    command_to_import: str
    """What the other person types."""
