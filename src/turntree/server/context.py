"""What every handler works with: the open tree, the settings, and what the process can do."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from turntree.api import Tree
from turntree.boot.model_setup import ModelSetup
from turntree.boot.open import Settings
from turntree.core.clock import Clock
from turntree.core.errors import Hint
from turntree.core.value import value
from turntree.db.database import Database
from turntree.policy.approval import Approval
from turntree.server.keys import AccessKeys
from turntree.server.live import Live
from turntree.server.workspace_stream import StreamReader, WorkspaceStream


async def _always() -> bool:
    return True


@value
class ServerContext:
    """The ledger, open for as long as the server runs."""

    tree: Tree
    """As its user sees it: another user's private session is not found."""
    database: Database
    """The same, for what the tree has no facet for."""
    settings: Settings
    clock: Clock
    command_for: Callable[[Hint], str | None]
    """Turns the hint of an error into the command that follows it."""
    keys: AccessKeys
    can_run: bool = False
    is_sample: bool = False
    models: ModelSetup | None = None
    """Sets up a model from a key of this user's environment; None for every other caller."""
    tell_decided: Callable[[Approval], None] | None = None
    """Tells the other coding agents of this machine what a person decided; None for others."""
    live: Live | None = None
    """What runs beside the requests; None in a server that only answers."""
    listening: "StreamHandle | None" = None
    """The stream of the workspace, over the network, and who asks for it."""
    sample: "SampleSwitch | None" = None
    """Where the sample data is shown instead, on request."""
    is_local: bool = True
    """Whether the caller is the user of this machine."""
    login: str | None = None
    """The id of the login session with which the caller asks."""
    is_admitted: Callable[[], Awaitable[bool]] = _always
    """Asked again while a stream lasts: whether its caller may still read."""
    is_draining: Callable[[], bool] = lambda: False
    """Whether the server is about to stop, so that streams should end."""

    @property
    def shown(self) -> "ServerContext":
        """The context of the next request: this one, or that of the sample data."""
        if self.sample is None or self.sample.shown is None:
            return self
        return self.sample.shown


@value
class StreamHandle:
    """A caller who may listen to a workspace."""

    stream: WorkspaceStream
    reader: StreamReader


@dataclass(slots=True, eq=False)
class SampleSwitch:
    """Shows the sample data instead of the user's own history, and leaves it again."""

    own: ServerContext
    open_sample: Callable[[], Awaitable[ServerContext]]
    """Called once, when the sample data is first asked for."""
    shown: ServerContext | None = None
    """The sample data while it is shown."""
    _opened: ServerContext | None = None

    async def show(self) -> int:
        """Show the sample data from now on; return the number of its turns."""
        if self._opened is None:
            self._opened = await self.open_sample()
        self.shown = self._opened
        _disconnect(self.own)
        return await self._opened.tree.turns.index.count()

    def leave(self) -> None:
        """Show the user's own history again."""
        if self.shown is not None:
            left, self.shown = self.shown, None
            _disconnect(left)


def _disconnect(context: ServerContext) -> None:
    """End the streams of a context: browsers connect again, and find another server's word."""
    if context.live is not None:
        context.live.stream.drop_all()
