"""A tool call as a policy sees it, whichever agent wants to make it.

Pure. Must never know who judges, or what comes of it.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

from turntree.auth.permissions import EFFECTS, Effect
from turntree.core.canonical import Json, canonical, digest_bytes
from turntree.core.ids import Digest
from turntree.core.message import Source
from turntree.core.value import value

CallOrigin = Literal["turntree", "claude-code", "codex"]
"""The tool whose agent wants to make the call."""
WORKER: Final = "worker"
"""The server of Python functions that run in the worker's own process."""


@value
class JudgedCall:
    """A tool call that has not been made."""

    tool: str
    args: Json
    effects: tuple[Effect, ...] | None = None
    """What the tool declares; None if it declares nothing, which counts as the worst."""
    server: str = WORKER
    """Where the tool runs: ``worker``, ``workbench``, ``ledger``, ``program``, ``mcp:NAME``, or
    the name of a coding agent."""
    origin: CallOrigin = "turntree"
    agent: str | None = None
    chain: tuple[str, ...] = ()
    """The principals as texts: who acts first, the person last."""
    started_by: Source = "human"
    """Who or what sent the message that the run answers."""
    session: str | None = None
    folder: str | None = None
    """The absolute path of the folder that the session works in."""
    context_effects: tuple[Effect, ...] = ()
    """Effects of the calls that were made earlier in the run."""
    commands: tuple[Mapping[str, Json], ...] | None = ()
    """The simple commands of a shell line; none if it is not one, None if it is one that could
    not be understood."""
    paths: tuple[str, ...] = ()
    """The files and folders that the call names, absolute, with links resolved."""
    network: bool = False
    """Whether what the call starts can reach a network, if that is known."""

    @property
    def worst_effects(self) -> tuple[Effect, ...]:
        """What the call has to be expected to do: everything, unless its tool declares less."""
        return EFFECTS if self.effects is None else self.effects

    @property
    def args_digest(self) -> Digest:
        """The digest of the arguments, as the event of the call records it."""
        return digest_bytes(canonical(self.args))

    @property
    def outside(self) -> tuple[str, ...]:
        """The paths that are not in the folder; all, if there is no folder."""
        return tuple(path for path in self.paths if not is_inside(path, self.folder))

    def to_json(self) -> dict[str, Any]:
        """Return the document that a policy reads."""
        person = self.chain[-1] if self.chain and self.chain[-1].startswith("human:") else None
        return {
            "tool": self.tool,
            "args": self.args,
            "effects": [*self.worst_effects],
            "effects_declared": self.effects is not None,
            "context_effects": [*self.context_effects],
            "server": self.server,
            "origin": self.origin,
            "agent": self.agent,
            "chain": [*self.chain],
            "person": person,
            "started_by": self.started_by,
            "session": self.session,
            "folder": self.folder,
            "paths": [*self.paths],
            "outside": [*self.outside],
            "commands": None if self.commands is None else [dict(one) for one in self.commands],
            "network": self.network,
        }


def is_inside(path: str, folder: str | None) -> bool:
    """Return whether a path is a folder or below it; both are absolute and without ``..``."""
    return folder is not None and (path == folder or path.startswith(folder.rstrip("/") + "/"))
