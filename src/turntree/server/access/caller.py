"""Who sends a request, and whether the table of routes lets them.

A caller has the workspace as they see it, and the delegation chain that says what they may do. The
dispatcher asks ``require`` for every route that is not open, before it reads a single value.
"""

from dataclasses import field
from http import HTTPStatus
from typing import Protocol

from starlette.requests import Request

from turntree.auth.execution_context import ExecutionContext
from turntree.auth.members import require_action
from turntree.auth.permissions import Right
from turntree.core.canonical import canonical
from turntree.core.errors import PermissionDenied
from turntree.core.value import value
from turntree.server.access.visitor import Visitor
from turntree.server.context import ServerContext
from turntree.server.problems import Refusal


@value
class ApiCaller:
    """Who sends a request."""

    context: ServerContext
    """What handlers work with; its tree shows what this caller may see."""
    acting: ExecutionContext
    permitted: set[Right] = field(default_factory=set[Right], compare=False, repr=False)
    """What was found to be permitted; who acts, and for whom, never changes."""

    @property
    def name(self) -> str:
        """A text that no caller with another workspace, principal or set of rights has."""
        chain = canonical({"chain": self.acting.chain.to_json()}).decode()
        return f"{self.context.settings.workspace}\0{chain}"

    @property
    def person(self) -> str:
        """The person who acts, or for whom an agent acts; the same person elsewhere is another."""
        return f"{self.context.settings.workspace}\0{self.acting.chain.root}"

    async def require(self, wanted: Right) -> None:
        """Refuse a caller who is not permitted something; the denial becomes an event.

        Raises:
            Refusal: The caller is not permitted it.
        """
        if wanted in self.permitted:
            return
        try:
            await require_action(self.context.tree.members.store, wanted, self.acting)
            self.permitted.add(wanted)
        except PermissionDenied as error:
            step = f"use a key of a member whose role and scopes permit {wanted}"
            raise Refusal(HTTPStatus.FORBIDDEN, "denied", str(error), step) from error


class Callers(Protocol):
    """Finds out who sends a request."""

    async def identify(self, request: Request) -> ApiCaller:
        """Return the caller of a request.

        Raises:
            Refusal: The request does not say who sends it, or says something that is not true.
        """
        ...

    def welcome(self, request: Request) -> ServerContext | Visitor:
        """Return what the handler of an open route works with, for any caller."""
        ...


@value
class LocalCallers:
    """The one user of a local server, whom the cookie has let in."""

    context: ServerContext

    async def identify(self, request: Request) -> ApiCaller:  # noqa: ARG002 - the door has looked.
        """Return the user, with the rights of the token that the server was started with."""
        shown = self.context.shown
        return ApiCaller(shown, shown.tree.authority.own)

    def welcome(self, request: Request) -> ServerContext:  # noqa: ARG002 - there is one user.
        """Return the user's own context."""
        return self.context.shown
