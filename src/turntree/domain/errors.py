"""Every error a caller may meet, and nothing else.

* TurntreeError
  x NotFound          the address names nothing
    + Ambiguous       the address names more than one thing
  x Conflict          somebody else moved first; read again and retry
  x Refused           the change would break a rule of the ledger
    + Unsupported     this kind of resource cannot do it
    + Denied          it is not for this principal to do
    + NoSandbox       code would have to run where it could do harm
    + CodeFailed      a program of somebody's crashed, or went beyond a limit
  x NoProvider        a model would have to answer, and none is wired
  x BadRevision       the text is not a revision
  x BadQuery          the text is not a search
  x NotCanonical      the value cannot be hashed the same way everywhere
  x Unreachable       the database cannot be reached

Whether to try again is the type: only ``Conflict`` and ``Unreachable`` are worth it.
"""


class TurntreeError(Exception):
    """Base of all errors raised on purpose."""


class NotFound(TurntreeError):
    """The address names nothing."""


class Ambiguous(NotFound):
    """The address names more than one thing."""


class Conflict(TurntreeError):
    """The session moved since it was read, or the place is already taken."""


class Refused(TurntreeError):
    """The change would break a rule of the ledger."""


class Unsupported(Refused):
    """A resource of this kind cannot do what was asked."""


class Denied(Refused):
    """It is somebody else's to do, or to allow."""


class NoProvider(TurntreeError):
    """A model would have to answer, and no provider is wired."""


class NoSandbox(Refused):
    """No sandbox can start here, so the code was not run."""


class CodeFailed(Refused):
    """The program crashed, went beyond a limit, or answered with no document."""


class BadRevision(TurntreeError, ValueError):
    """The text is not a revision."""


class BadQuery(TurntreeError, ValueError):
    """The text is not a search."""


class NotCanonical(TurntreeError, ValueError):
    """The value cannot be hashed the same way everywhere."""


class Unreachable(TurntreeError):
    """The database cannot be reached."""
