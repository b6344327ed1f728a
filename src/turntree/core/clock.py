"""Sources of time, ids and randomness, which pure functions take as an argument."""

from typing import Protocol

from turntree.core.ids import Timestamp


class Clock(Protocol):
    """Source of time, ids and nonces; tests use one that is deterministic."""

    def now(self) -> Timestamp:
        """Return the current time, never earlier than the last returned one."""
        ...

    def new_id(self) -> str:
        """Return a unique UUIDv7."""
        ...

    def nonce(self) -> str:
        """Return an unguessable string."""
        ...


class Processes(Protocol):
    """Processes on this machine: a process that crashed cannot release what it held."""

    @property
    def me(self) -> str:
        """The name of this process, unique over time."""
        ...

    def is_running(self, name: str) -> bool:
        """Return whether the process of that name is still running."""
        ...
