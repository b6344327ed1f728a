"""The three things no pure function may fetch for itself: the time, a new id, a random word."""

from typing import Protocol

from turntree.core.ids import Timestamp


class Clock(Protocol):
    """Where clocks and chance come from; tests give one that repeats itself."""

    def now(self) -> Timestamp:
        """Return the present moment, never earlier than the one returned before."""
        ...

    def new_id(self) -> str:
        """Return a UUIDv7 nobody else has."""
        ...

    def nonce(self) -> str:
        """Return an unguessable word."""
        ...


class Processes(Protocol):
    """Who else works on this machine; whoever took something and ended cannot give it back."""

    @property
    def me(self) -> str:
        """The name of this process, which no other ever has."""
        ...

    def is_running(self, name: str) -> bool:
        """Say whether the process of that name still runs."""
        ...
