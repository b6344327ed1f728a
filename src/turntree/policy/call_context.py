"""Describes a call of one of our runs to a policy, from what its journal records.

The same description is made when the call is judged and when a policy is tried on it later. Pure.
"""

import posixpath
from collections.abc import Mapping
from typing import Any, Final, cast

from turntree.auth.permissions import Effect
from turntree.core.canonical import Json
from turntree.core.message import SOURCES, Source, ToolUse
from turntree.core.run import agent_of
from turntree.policy.call import JudgedCall
from turntree.policy.shell import read_commands
from turntree.sandbox.bwrap_args import WORK

WORKBENCH: Final = "workbench"
SHELL: Final = "shell.exec"


def described(
    use: ToolUse,
    *,
    server: str,
    effects: tuple[Effect, ...] | None,
    started: Mapping[str, Json],
    chain: tuple[str, ...],
    context_effects: tuple[Effect, ...],
    source: str,
    session: Json,
) -> JudgedCall:
    """Return a call as a policy sees it; ``started`` is the data of the run's first event."""
    place = started.get("workspace_path")
    folder = None if place is None else str(place)
    args: Mapping[str, Any] = use.args if isinstance(use.args, Mapping) else {}
    commands: tuple[Mapping[str, Json], ...] | None = ()
    paths: tuple[str, ...] = ()
    if server == WORKBENCH:
        line, path = args.get("cmd"), args.get("path")
        if use.tool == SHELL and isinstance(line, str):
            read = read_commands(line, str(args.get("cwd", ".")))
            commands = None if read is None else tuple(one.to_json() for one in read)
        if isinstance(path, str) and folder is not None:
            # The workbench follows no links, so the text says where the path leads. It also takes
            # the name that the folder has for commands.
            if path == WORK or path.startswith(f"{WORK}/"):
                path = path.removeprefix(WORK).lstrip("/")
            paths = (posixpath.normpath(posixpath.join(folder, path)),)
    named = cast("Source", source)
    return JudgedCall(
        str(use.tool),
        use.args,
        effects,
        server,
        agent=agent_of(started),
        chain=chain,
        started_by=named if named in SOURCES else "human",
        session=None if session is None else str(session),
        folder=folder,
        context_effects=context_effects,
        commands=commands,
        paths=paths,
        network=server == WORKBENCH and "external_write" in (effects or ()),
    )
