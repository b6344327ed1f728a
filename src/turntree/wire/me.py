"""Who is asking, and which server answers."""

from turntree.core.value import value


@value
class Me:
    """The user whom this server serves, and what it can do for them."""

    user: str
    workspace: str
    version: str
    home: str
    """The data directory, as a path on the server's machine; empty for callers over the network."""
    can_run: bool
    """Whether this process can ask models."""
    sample: bool
    """Whether the workspace holds the sample data."""
    may: tuple[str, ...] = ()
    """The actions that the caller is permitted, such as ``invoke``; a session may permit less."""
    login: str | None = None
    """The id of the login session with which the caller asks; null for a key or a token."""
