"""What every handler works with: the open tree, the settings, and what the process can do."""

from collections.abc import Callable

from turntree.api import Tree
from turntree.boot.open import Settings
from turntree.core.clock import Clock
from turntree.core.errors import Hint
from turntree.core.value import value
from turntree.db.database import Database
from turntree.server.keys import AccessKeys


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
