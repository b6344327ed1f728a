"""Principals: who acts, and on whose behalf."""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Final, Literal, Protocol

from turntree.core.value import value

PrincipalKind = Literal["human", "agent", "session", "system"]


@value
class Principal:
    """Who acts. The chain of ``on_behalf_of`` ends in a human or the system."""

    kind: PrincipalKind
    id: str
    on_behalf_of: "Principal | None" = None

    @property
    def person(self) -> "Principal | None":
        """The human who acts, or on whose behalf it is done; None if that is not known."""
        behind: Principal | None = self
        while behind is not None and behind.kind != "human":
            behind = behind.on_behalf_of
        return behind

    def __str__(self) -> str:
        """Return the short form used in reflogs: ``human:ana``."""
        return f"{self.kind}:{self.id}"

    def to_json(self) -> dict[str, Any]:
        """Return the document that headers and events carry."""
        document: dict[str, Any] = {"kind": self.kind, "id": self.id}
        if self.on_behalf_of is not None:
            document["on_behalf_of"] = self.on_behalf_of.to_json()
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Principal":
        """Return the principal that a document describes."""
        behind = document.get("on_behalf_of")
        return cls(
            document["kind"],
            document["id"],
            None if behind is None else cls.from_json(behind),
        )


SYSTEM = Principal("system", "turntree")


class Actor(Protocol):
    """The acting principal with its permissions: an ``ExecutionContext``."""

    @property
    def principal(self) -> Principal:
        """Who acts, and on whose behalf."""
        ...

    @property
    def links(self) -> list[dict[str, Any]] | None:
        """The delegation chain as documents; None if it limits nothing."""
        ...


ACTIVE: Final[ContextVar[Actor | None]] = ContextVar("turntree", default=None)
"""The actor in whose context code runs, if any."""
