"""The attacks of ``proofs.own_tools``, made by a tool server that a worker starts in its sandbox.

A person connects ``proofs.hostile_server`` with a profile that lets it change one folder. It is
called as an agent's calls reach it: by a connector with accepted tools, over pipes. What an attack
gets is what such a server could do to the person's machine.
"""

import shutil
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from unittest.mock import patch

import turntree
from proofs.figures import temporary_server
from proofs.own_tools import ATTACKS, FAST, OF_OUR_TOOLS, Scene, got_by, real
from turntree.api import Tree
from turntree.boot.open import Settings
from turntree.core.canonical import Json
from turntree.core.message import ToolUse
from turntree.core.value import value
from turntree.db.database import ensure_database
from turntree.models.prompt import ToolSpec
from turntree.sandbox import seccomp
from turntree.testing.contracts.sandbox import Host, a_host
from turntree.tools.mcp.connections import ServerConnections
from turntree.tools.mcp.connector_tools import ConnectorTools
from turntree.tools.mcp.description import specs_of
from turntree.tools.toolset import ToolContext, ToolOutcome
from turntree.workbench.profile import SandboxProfile

SANDBOXED: Final = "hostile"
FREE: Final = "free"
"""The connector whose server runs outside of every sandbox, as its user's settings say."""
SERVER_ATTACKS: Final = tuple(name for name in ATTACKS if name not in OF_OUR_TOOLS)


@value
class _ServerTools:
    """A server's tools under the names by which the attacks know them. Implements ``Toolset``."""

    tools: ConnectorTools

    @property
    def specs(self) -> Sequence[ToolSpec]:
        """The specs of the server's tools."""
        return self.tools.specs

    async def call(self, use: ToolUse, occasion: ToolContext) -> ToolOutcome:
        """Call the server's tool."""
        name = f"{self.tools.program.name}.{use.tool.replace('.', '_')}"
        return await self.tools.call(ToolUse(use.call_id, name, use.args), occasion)


@value
class HostileServer:
    """A hostile server that a person has connected, in a sandbox and outside of every one."""

    tree: Tree
    profiles: Path
    """The person's sandbox profiles."""
    program: Path

    async def attack(self, name: str, connector: str = SANDBOXED, more: str = "") -> str | None:
        """Return what an attack got; ``more`` are lines that widen the profile."""
        with a_host() as host:
            async with self._scene(host, connector, more) as scene:
                return await got_by(name, scene)

    async def works(self) -> bool:
        """Return whether the server changes its folder: one that does nothing gets nothing."""
        with a_host() as host:
            async with self._scene(host, SANDBOXED, "") as scene:
                await scene.call("fs.write", path="sub/text.txt", text="one")
                await scene.call("shell.exec", cmd="echo two >> sub/text.txt")
                told = await scene.call("fs.read", path="sub/text.txt")
                return told == "one" + "two\n" == (scene.folder / "sub/text.txt").read_text()

    @asynccontextmanager
    async def _scene(self, host: Host, connector: str, more: str) -> AsyncGenerator[Scene]:
        tree = self.tree
        with TemporaryDirectory() as place:
            folder = real(place)
            self.profiles.write_text(
                f'[attacked]\nread = ["{self.program.parent}"]\nwrite = ["{folder}"]\n{more}\n'
            )
            await tree.programs.configure(connector, {"env/HOSTILE_FOLDER": str(folder)})
            program = await tree.programs.get(connector)
            connections = ServerConnections(tree.connectors.reach())
            tools = ConnectorTools(connections, tree.programs, program, specs_of(program))
            try:
                yield Scene(host, folder, _ServerTools(tools), connections.aclose)
            finally:
                await connections.aclose()

    async def show_planted(self) -> dict[str, bool]:
        """Return of each planted fault whether an attack finds it."""
        found: dict[str, bool] = {}
        for fault, (name, connector, more, plant) in PLANTS.items():
            with plant():
                found[fault] = await self.attack(name, connector, more) is not None
        return found


@contextmanager
def _allowing_set_id() -> Generator[None]:
    with patch.object(seccomp, "_SET_ID", 0):
        yield


@contextmanager
def _guarding_nothing() -> Generator[None]:
    with patch.object(SandboxProfile, "guarded", ()):
        yield


PLANTS: Final[Mapping[str, tuple[str, str, str, Callable[[], Any]]]] = {
    "no sandbox": ("an absolute path", FREE, "", nullcontext),
    "the network is there": ("the network", SANDBOXED, 'network = "open"', nullcontext),
    "set-ID bits are allowed": ("set-ID bits", SANDBOXED, "", _allowing_set_id),
    "nothing is guarded": ("hooks of other programs", SANDBOXED, "", _guarding_nothing),
}
"""Of each fault the attack that finds it, with which server, what widens the profile and what is
changed. Never attack processes without a sandbox: they would be those of this machine."""


@asynccontextmanager
async def a_hostile_server() -> AsyncGenerator[HostileServer]:
    """Yield a hostile server, connected with its tools accepted."""
    with temporary_server(FAST) as (server, place), TemporaryDirectory() as code:
        program = real(code) / "server.py"
        shutil.copyfile(Path(__file__).with_name("hostile_server.py"), program)
        profiles = real(str(place)) / "profiles.toml"
        profiles.write_text(f'[attacked]\nread = ["{program.parent}"]\n')
        conninfo = await ensure_database(server, "attacked")
        settings = Settings(
            real(str(place)) / "home", database_url=conninfo, workspace="attacked", user="ana",
            sandbox_profiles=profiles, unsandboxed_connectors=frozenset({FREE}),
        )  # fmt: skip
        async with turntree.open(settings) as tree:
            config: dict[str, Json] = {
                "command": f"/usr/bin/python3 {program}", "env": {"HOSTILE_FOLDER": "/"},
                "protocol": "handshake", "effects": {"*": []},
            }  # fmt: skip
            for name, more in ((SANDBOXED, {"sandbox": "attacked"}), (FREE, {})):
                await tree.programs.create("connector", name, {**config, **more})
                await tree.connectors.accept(name)
            yield HostileServer(tree, profiles, program)
