"""All errors that a caller may have to handle.

* TurntreeError
  x NotFound                the address names nothing
    + Ambiguous             the address names more than one thing
    + DataMissing           stored bytes are missing or damaged
  x Conflict                another writer was faster; read again and retry
    + Canceled              the run was canceled
    + StalePolicy           another policy is in force than the one that decided
  x InvalidOperation        the change would break a rule of the ledger
    + Unsupported           this kind of resource cannot do it
    + PathExists            something is already at a path
    + UnsavedChanges        it would lose data that cannot be restored
    + SnapshotIncomplete    a snapshot lacks something
    + PermissionDenied      this principal may not do it
    + SandboxUnavailable    the code would have to run without a sandbox
    + CodeError             a code program crashed, or exceeded a limit
    + TurnFailed            a message was answered by a turn that failed
    + NoWorker              a message waits, and no worker answers
  x ProviderNotConfigured   a model is needed, and no provider is configured
  x ProviderError           a model was asked and did not answer
  x InvalidRevision         the text is not a revision
  x InvalidQuery            the text is not a search query
  x NotCanonical            the value cannot be hashed the same way everywhere
  x DatabaseUnavailable     the database cannot be reached
  x ServerUnavailable       the server cannot be reached, or failed

Whether to retry is the type: only ``Conflict``, ``DatabaseUnavailable`` and ``ServerUnavailable``
are worth it, and ``ProviderError`` if its kind says so.

A message says what is wrong. What to do about it is the error's ``hint``, which is data: the
command line shows a command where a server returns a link.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, cast

from turntree.core.ids import Digest, TurnId
from turntree.core.value import value


def first_of(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error of a group; the others followed from it."""
    first = errors.exceptions[0]
    if isinstance(first, BaseExceptionGroup):
        return first_of(cast("BaseExceptionGroup[BaseException]", first))
    return first


@value
class Hint:
    """What to do about an error: an action, and what to apply it to.

    The command line shows ``Hint("session.fork", {"revision": "main~2"})`` as the command that
    forks ``main~2``, and has the list of all actions.
    """

    action: str
    arguments: Mapping[str, str | Sequence[str]] = field(default_factory=dict[str, str])

    def to_json(self) -> dict[str, Any]:
        """Return the hint as a document, as SQL functions and events write it."""
        return {"action": self.action, **self.arguments}

    @staticmethod
    def from_json(document: object) -> "Hint | None":
        """Return the hint that a document describes, or None if it describes none."""
        if not isinstance(document, Mapping):
            return None
        members = dict(cast("Mapping[str, Any]", document))
        action = members.pop("action", None)
        return Hint(action, members) if isinstance(action, str) else None


class TurntreeError(Exception):
    """Base of all errors raised on purpose."""

    def __init__(self, *args: object, hint: Hint | None = None) -> None:
        """Take the message, and what to do about it."""
        super().__init__(*args)
        self.hint = hint


class NotFound(TurntreeError):
    """The address names nothing."""


class Ambiguous(NotFound):
    """The address names more than one thing."""


class DataMissing(NotFound):
    """Bytes of a snapshot are missing from their store, or damaged."""


class Conflict(TurntreeError):
    """The session moved since it was read, or the position is already taken."""


class Canceled(Conflict):
    """The run was canceled; it starts no further model or tool call."""


class StalePolicy(Conflict):
    """Another policy is in force than the one that decided; decide again."""


class InvalidOperation(TurntreeError):
    """The change would break a rule of the ledger."""


class Unsupported(InvalidOperation):
    """A resource of this kind cannot do what was asked."""


class PathExists(InvalidOperation):
    """Something already exists at the path."""

    def __init__(self, place: str, free: str) -> None:
        """Take the path, and a free one next to it."""
        super().__init__(f"there is something at {place} already")
        self.place = place
        self.free = free


class UnsavedChanges(InvalidOperation):
    """The operation would discard changes that no snapshot contains."""


class SnapshotIncomplete(InvalidOperation):
    """A snapshot lacks something, or is damaged."""

    def __init__(self, message: str, state: Digest) -> None:
        """Take the message, and the digest of the snapshot."""
        super().__init__(message)
        self.state = state


class PermissionDenied(InvalidOperation):
    """The principal may not do this."""


class ProviderNotConfigured(TurntreeError):
    """A model is needed, and no provider is configured."""


Failure = Literal[
    "rate_limited", "overloaded", "timeout", "broken", "too_long", "refused", "denied", "unknown"
]
"""Why a provider did not answer. ``broken`` is a stream that ended in the middle."""


class ProviderError(TurntreeError):
    """A model was asked and did not answer."""

    def __init__(
        self,
        message: str,
        kind: Failure,
        *,
        retry_after_s: float | None = None,
        sent_tokens: int | None = None,
        limit_tokens: int | None = None,
        hint: Hint | None = None,
    ) -> None:
        """Take the message, the kind of failure, and when the provider wants to be asked again.

        A prompt that was too long may come with its length and the limit, as the provider counts.
        """
        super().__init__(message, hint=hint)
        self.kind: Failure = kind
        self.retry_after_s = retry_after_s
        self.sent_tokens = sent_tokens
        self.limit_tokens = limit_tokens


class SandboxUnavailable(InvalidOperation):
    """No sandbox can start here, so the code was not run."""


class CodeError(InvalidOperation):
    """The program crashed, exceeded a limit, or did not return a document."""


class TurnFailed(InvalidOperation):
    """The turn that answers a message failed, or was canceled or interrupted."""

    def __init__(self, message: str, turn: TurnId, *, hint: Hint | None = None) -> None:
        """Take the message and the turn, which holds what was done before it failed."""
        super().__init__(message, hint=hint)
        self.turn = turn


class NoWorker(InvalidOperation):
    """No worker is running that could answer."""


class InvalidRevision(TurntreeError, ValueError):
    """The text is not a revision."""


class InvalidQuery(TurntreeError, ValueError):
    """The text is not a search query."""


class NotCanonical(TurntreeError, ValueError):
    """The value cannot be hashed the same way everywhere."""


class DatabaseUnavailable(TurntreeError):
    """The database cannot be reached."""


class ServerUnavailable(TurntreeError):
    """The server cannot be reached, or failed."""
