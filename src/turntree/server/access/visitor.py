"""A caller whom the server does not know yet: what the handlers of open routes work with."""

from turntree.core.value import value
from turntree.server.access.workspaces import ServedWorkspace, Workspaces
from turntree.server.context import ServerContext


@value
class Visitor:
    """Any caller of an open route, with the workspace that they ask for."""

    asked: str
    """The name in the path; there may be no such workspace."""
    base: ServerContext
    """That of the process's own user and workspace."""
    workspaces: Workspaces

    @property
    def is_at_own(self) -> bool:
        """Whether the path names the workspace that the process was started for."""
        return self.asked == self.workspaces.own.name

    async def find_workspace(self) -> ServedWorkspace | None:
        """Return the workspace that the path names, or None."""
        return await self.workspaces.find_named(self.asked)
