"""A caller whom the server does not know yet: what the handlers of open routes work with."""

from turntree.core.value import value
from turntree.server.access.login_tries import LoginTries
from turntree.server.access.oidc.providers import IdentityProviders
from turntree.server.access.session_cookie import Purpose, cookie_name, read_cookie
from turntree.server.access.workspaces import ServedWorkspace, Workspaces
from turntree.server.context import ServerContext


@value
class Visitor:
    """Any caller of an open route, with the workspace that they ask for."""

    asked: str
    """The name in the path; there may be no such workspace."""
    host: str
    """The name and port by which they reached the server."""
    address: str
    """Where the connection comes from, which may be a proxy."""
    cookies: tuple[str, ...]
    """The Cookie headers."""
    base: ServerContext
    """That of the process's own user and workspace."""
    workspaces: Workspaces
    tries: LoginTries
    providers: IdentityProviders

    @property
    def is_at_own(self) -> bool:
        """Whether the path names the workspace that the process was started for."""
        return self.asked == self.workspaces.own.name

    async def find_workspace(self) -> ServedWorkspace | None:
        """Return the workspace that the path names, or None."""
        return await self.workspaces.find_named(self.asked)

    def read_cookie(self, purpose: Purpose) -> str | None:
        """Return the cookie of the workspace that the path names, or None."""
        return read_cookie(cookie_name(purpose, self.host, self.asked), self.cookies)
