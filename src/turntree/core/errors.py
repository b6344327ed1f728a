"""Every error a caller may meet, and nothing else.

* TurntreeError
  x NotFound          the address names nothing
    + Ambiguous       the address names more than one thing
  x Conflict          somebody else moved first; read again and retry
    + Canceled        the run was asked to end
  x Refused           the change would break a rule of the ledger
    + Unsupported     this kind of resource cannot do it
    + Occupied        something stands where a new place was to be made
    + Unpinned        it would lose what nothing brings back
    + Incomplete      a kept state lacks something
    + Denied          it is not for this principal to do
    + NoSandbox       code would have to run where it could do harm
    + CodeFailed      a program of somebody's crashed, or went beyond a limit
  x NoProvider        a model would have to answer, and none is wired
  x ProviderFailed    a model was asked and gave no answer
  x BadRevision       the text is not a revision
  x BadQuery          the text is not a search
  x NotCanonical      the value cannot be hashed the same way everywhere
  x Unreachable       the database cannot be reached

Whether to try again is the type: only ``Conflict`` and ``DatabaseUnavailable`` are worth it, and
``ProviderError`` if its kind says so.
"""

from typing import Literal, cast

from turntree.core.ids import Digest


def first_of(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the error that came first among those of a group; the rest followed from it."""
    first = errors.exceptions[0]
    if isinstance(first, BaseExceptionGroup):
        return first_of(cast("BaseExceptionGroup[BaseException]", first))
    return first


class TurntreeError(Exception):
    """Base of all errors raised on purpose."""


class NotFound(TurntreeError):
    """The address names nothing."""


class Ambiguous(NotFound):
    """The address names more than one thing."""


class DataMissing(NotFound):
    """Bytes that a state is made of are missing where they should be kept, or damaged."""


class Conflict(TurntreeError):
    """The session moved since it was read, or the place is already taken."""


class Canceled(Conflict):
    """Somebody asked for the end of the run; nothing more is begun in it."""


class InvalidOperation(TurntreeError):
    """The change would break a rule of the ledger."""


class Unsupported(InvalidOperation):
    """A resource of this kind cannot do what was asked."""


class PathExists(InvalidOperation):
    """Something stands where a new place was to be made."""

    def __init__(self, place: str, free: str) -> None:
        """Say where, and which place beside it is free."""
        super().__init__(f"there is something at {place} already")
        self.place = place
        self.free = free


class UnsavedChanges(InvalidOperation):
    """It would take away what no turn has pinned, or what no state holds."""


class SnapshotIncomplete(InvalidOperation):
    """A state that is to be kept lacks something, or it is damaged."""

    def __init__(self, message: str, state: Digest) -> None:
        """Say what happened, and which state it is."""
        super().__init__(message)
        self.state = state


class PermissionDenied(InvalidOperation):
    """It is somebody else's to do, or to allow."""


class ProviderNotConfigured(TurntreeError):
    """A model would have to answer, and no provider is wired."""


Failure = Literal[
    "rate_limited", "overloaded", "timeout", "broken", "too_long", "refused", "denied", "unknown"
]
"""Why a provider gave no answer. ``broken`` is a stream that ended in the middle."""


class ProviderError(TurntreeError):
    """A model was asked and gave no answer."""

    def __init__(self, message: str, kind: Failure, *, retry_after_s: float | None = None) -> None:
        """Say what happened, of which kind it is, and when the provider wants to be asked again."""
        super().__init__(message)
        self.kind: Failure = kind
        self.retry_after_s = retry_after_s


class SandboxUnavailable(InvalidOperation):
    """No sandbox can start here, so the code was not run."""


class CodeError(InvalidOperation):
    """The program crashed, went beyond a limit, or answered with no document."""


class InvalidRevision(TurntreeError, ValueError):
    """The text is not a revision."""


class InvalidQuery(TurntreeError, ValueError):
    """The text is not a search."""


class NotCanonical(TurntreeError, ValueError):
    """The value cannot be hashed the same way everywhere."""


class DatabaseUnavailable(TurntreeError):
    """The database cannot be reached."""
