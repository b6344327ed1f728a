"""Decide who gets the tools for a folder: one rule for what is offered and for every call.

A worker runs with the rights of its user, and so do these tools. So they work only in a folder that
this user attached to the session, for an agent that this user alone has written, when this user
asked or another principal on this user's behalf. Which sandbox profile is meant by the agent's name
for it, the user's file says. Anything else leaves the agent without these tools, and the request
says why.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation
from turntree.core.ids import SessionId
from turntree.core.principal import Principal
from turntree.core.program import Program
from turntree.core.run import reader_of
from turntree.programs.service import Programs
from turntree.runs.request_resolver import WorkbenchOffer
from turntree.runs.run_files import RunFiles
from turntree.sandbox.code import CommandLimits, CommandView
from turntree.sandbox.sandbox import Sandbox
from turntree.tools.toolset import ToolContext, Toolset
from turntree.workbench.profile import CODE, FOLDER, SandboxProfile
from turntree.workbench.tools import WorkbenchTools


@dataclass(slots=True)
class Workbench:
    """The tools for folders that a worker has."""

    programs: Programs
    files: RunFiles
    load_profiles: Callable[[], Mapping[str, SandboxProfile]]
    find_sandbox: Callable[[], Sandbox]
    _toolsets: dict[SandboxProfile, WorkbenchTools] = field(
        default_factory=dict[SandboxProfile, WorkbenchTools]
    )

    async def offer(self, agent: Program, started: Mapping[str, Json]) -> WorkbenchOffer:
        """Return the tools that a run is offered, and what its request records."""
        name = agent.version.config.get("sandbox")
        if not isinstance(name, str) or name == CODE:
            return WorkbenchOffer()
        record: dict[str, Json] = {"profile": name}
        session = started.get("session")
        if session is None or "workspace_path" not in started:
            reason = "no folder is attached to the session"
            return WorkbenchOffer(record={**record, "absent": reason})
        try:
            tools = await self._toolset(agent, reader_of(started))
            folder = await self._find_folder(SessionId(str(session)))
        except InvalidOperation as error:
            return WorkbenchOffer(record={**record, "absent": str(error)})
        record |= {"folder": folder, "network": tools.profile.has_network}
        return WorkbenchOffer(tuple(tools.specs), record)

    async def tools_of(
        self, agent: Program | None, reader: Principal, request: Mapping[str, Json]
    ) -> list[Toolset]:
        """Return the tools that a run may call now, at most those that it was offered."""
        match request.get("sandbox"):
            case {"folder": str(), "profile": str(name)} if agent is not None:
                if agent.version.config.get("sandbox") != name:
                    return []
            case _:
                return []
        try:
            return [await self._toolset(agent, reader)]
        except InvalidOperation:
            # What was offered was taken away meanwhile. The model reads that there is no such tool.
            return []

    async def _toolset(self, agent: Program, reader: Principal) -> WorkbenchTools:
        """Return the tools of an agent.

        Raises:
            InvalidOperation: It may not have them here; the message says why.
        """
        user = self.programs.user
        if user is None or not await self.programs.is_own(agent):
            raise InvalidOperation(f"{user or 'no user'} alone has not written {agent.address}")
        if str(reader.person) != str(user):
            raise InvalidOperation(f"{reader} asked, and the folder is {user}'s")
        profiles = self.load_profiles()
        profile = profiles.get(str(agent.version.config.get("sandbox")))
        if profile is None:
            known = ", ".join(sorted(profiles))
            raise InvalidOperation(f"this machine has no such sandbox profile; it has {known}")
        sandbox = self.find_sandbox()
        if (fault := sandbox.find_fault()) is not None:
            raise InvalidOperation(f"no sandbox can start here: {fault}")
        if profile not in self._toolsets:
            self._toolsets[profile] = WorkbenchTools(profile, sandbox, self._folder_of)
        return self._toolsets[profile]

    async def _folder_of(self, context: ToolContext) -> str:
        if context.session is None:
            raise InvalidOperation("there is no session with a folder")
        return await self._find_folder(context.session)

    async def _find_folder(self, session: SessionId) -> str:
        """Return the only folder of a session.

        Raises:
            InvalidOperation: It has none that this user attached, or several.
        """
        attached = await self.files.list_attached(session)
        folders = [one.place for one, _ in attached if one.kind == "directory"]
        if len(folders) != 1:
            raise InvalidOperation(
                f"{len(folders)} folders of {self.programs.user} are attached to the session, not 1"
            )
        return folders[0]


OpenWorkbench = Callable[[Programs, RunFiles], Workbench]


def find_view(
    profiles: Mapping[str, SandboxProfile], name: str | None
) -> tuple[CommandView, CommandLimits]:
    """Return what a command that serves tools may reach and use; by default no folder, no network.

    Raises:
        InvalidOperation: This machine has no such profile.
    """
    profile = profiles.get(FOLDER if name is None else name)
    if profile is None:
        raise InvalidOperation(
            f"this machine has no sandbox profile {name!r}; it has {', '.join(sorted(profiles))}"
        )
    view = CommandView(profile.reads, profile.writes, profile.has_network, profile.guarded)
    limits = CommandLimits(memory_bytes=profile.memory_mb * 1_048_576, processes=profile.processes)
    return view, limits
