"""A real server of the protocol's library in bubblewrap: what it reaches, and what errors tell."""

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from importlib.metadata import distribution
from pathlib import Path

import pytest

from turntree.api import Tree
from turntree.boot.open import CODE_SANDBOX, Settings, find_sandboxes, tree_on
from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation
from turntree.core.ids import RunId
from turntree.core.message import ToolResult, ToolUse
from turntree.core.secret_refs import read_hosts
from turntree.db.database import Database
from turntree.system.clock import SystemClock
from turntree.tools.mcp.connections import ServerConnections
from turntree.tools.mcp.connector_tools import ConnectorTools
from turntree.tools.mcp.description import specs_of
from turntree.tools.toolset import ToolContext

FAULT = find_sandboxes()[CODE_SANDBOX].find_fault()
pytestmark = [pytest.mark.anyio, pytest.mark.skipif(FAULT is not None, reason=str(FAULT))]
RUN = RunId("00000000-0000-7000-8000-000000000000")
SERVER = """
import socket
from pathlib import Path

from mcp.server.mcpserver import MCPServer

server = MCPServer("desk")


@server.tool()
def read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError as error:
        return error.strerror


@server.tool()
def write(path: str, text: str) -> str:
    try:
        Path(path).write_text(text)
    except OSError as error:
        return error.strerror
    return "written"


@server.tool()
def connect(port: int) -> str:
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
    except OSError as error:
        return error.strerror
    return "connected"


server.run("stdio")
"""
LIST_MODULES = (
    "import sys, mcp.server.mcpserver\n"
    "print(*(getattr(one, '__file__', None) for one in list(sys.modules.values())), sep='\\n')"
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A server's program in a folder with its packages, which no other test can write."""
    folder = tmp_path_factory.mktemp("program")
    # A copy: a profile cannot open an environment below /work, where a command sees its own folder.
    place = Path(str(distribution("mcp").locate_file(""))).resolve()
    told = subprocess.run(
        [sys.executable, "-c", LIST_MODULES], capture_output=True, text=True, check=True
    )
    files = [Path(line) for line in told.stdout.splitlines() if line.startswith(f"{place}/")]
    packages = folder / "packages"
    packages.mkdir()
    for top in sorted({place / file.relative_to(place).parts[0] for file in files}):
        if top.is_dir():
            shutil.copytree(top, packages / top.name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(top, packages / top.name)
    for metadata in place.glob("*.dist-info/METADATA"):
        (packages / metadata.parent.name).mkdir()
        shutil.copyfile(metadata, packages / metadata.parent.name / "METADATA")
    (folder / "server.py").write_text(SERVER)
    return folder / "server.py"


@contextmanager
def a_profile(folder: Path, program: Path, **more: str) -> Generator[tuple[Path, Path]]:
    """A file with the profile ``desk``, and the folder that it lets a server read."""
    shelf, reads = folder / "shelf", [program.parent]
    shelf.mkdir()
    (shelf / "book.txt").write_text("lore")
    if not Path(sys.base_prefix).is_relative_to("/usr"):
        reads.append(Path(sys.base_prefix))
    profiles = folder / "profiles.toml"
    lines = [f"read = {json.dumps([str(one) for one in (*reads, shelf)])}"]
    lines += [f"{name} = {value}" for name, value in more.items()]
    profiles.write_text("\n".join(["[desk]", *lines]))
    yield profiles, shelf


def python() -> str:
    """The interpreter behind the environment of the tests."""
    return f"{sys.base_prefix}/bin/python{sys.version_info.major}.{sys.version_info.minor}"


@asynccontextmanager
async def connected(
    database: Database, folder: Path, profiles: Path | None, **config: Json
) -> AsyncGenerator[Tree]:
    """A tree of a person with the connector ``desk``."""
    settings = Settings(
        folder / "home", user="ana", sandbox_profiles=profiles,
        secret_hosts=read_hosts("DESK_KEY@type:command"),
    )  # fmt: skip
    tree = tree_on(database, settings, SystemClock())
    await tree.programs.create(
        "connector", "desk", {"effects": {"*": []}, "sandbox": "desk", **config}
    )
    yield tree


@asynccontextmanager
async def tools_of(tree: Tree) -> AsyncGenerator[ConnectorTools]:
    await tree.connectors.accept("desk")
    program = await tree.programs.get("desk")
    connections = ServerConnections(tree.connectors.reach())
    try:
        yield ConnectorTools(connections, tree.programs, program, specs_of(program))
    finally:
        await connections.aclose()


async def call(tools: ConnectorTools, tool: str, **args: Json) -> Json:
    result = await tools.call(ToolUse("c", f"desk.{tool}", args), ToolContext(RUN, None, "c"))
    assert isinstance(result, ToolResult)
    assert isinstance(result.output, Mapping), result.output
    return result.output["result"]


@contextmanager
def a_listener() -> Generator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


async def test_server_in_its_sandbox_reads_its_profile_and_nothing_else(
    database: Database, tmp_path: Path, program: Path
) -> None:
    (tmp_path / "secret.txt").write_text("hunter2")
    with a_profile(tmp_path, program) as (profiles, shelf), a_listener() as port:
        command = f"{python()} {program}"
        env: Json = {"PYTHONPATH": str(program.parent / "packages")}
        async with (
            connected(database, tmp_path, profiles, command=command, env=env) as tree,
            tools_of(tree) as tools,
        ):
            assert await call(tools, "read", path=str(shelf / "book.txt")) == "lore"
            for path in (tmp_path / "secret.txt", profiles, "/etc/passwd"):
                assert await call(tools, "read", path=str(path)) == "No such file or directory"
            refused = await call(tools, "write", path=str(shelf / "book.txt"), text="x")
            assert refused == "Read-only file system"
            assert await call(tools, "write", path="own.txt", text="x") == "written"
            assert await call(tools, "connect", port=port) == "Connection refused"
    assert (shelf / "book.txt").read_text() == "lore"


async def test_server_with_a_network_in_its_profile_connects(
    database: Database, tmp_path: Path, program: Path
) -> None:
    with a_profile(tmp_path, program, network='"open"') as (profiles, _), a_listener() as port:
        command = f"{python()} {program}"
        env: Json = {"PYTHONPATH": str(program.parent / "packages")}
        async with (
            connected(database, tmp_path, profiles, command=command, env=env) as tree,
            tools_of(tree) as tools,
        ):
            assert await call(tools, "connect", port=port) == "connected"


async def test_command_that_does_not_start_in_its_sandbox_says_why(
    database: Database, tmp_path: Path
) -> None:
    (tmp_path / "server.py").write_text("")
    missing: dict[str, Json] = {"command": f"/usr/bin/python3 {tmp_path}/server.py"}
    missing["sandbox"] = "folder"
    async with connected(database, tmp_path, None, **missing) as tree:
        with pytest.raises(InvalidOperation) as raised:
            await tree.connectors.list_tools("desk")
    told = str(raised.value)
    assert told.startswith("@(desk) cannot be reached in the sandbox 'folder': its command ended")
    assert "server.py" in told
    assert "No such file" in told
    assert raised.value.hint is not None
    assert raised.value.hint.action == "connector.choose_sandbox"


async def test_command_that_reports_its_secret_is_quoted_without_it(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESK_KEY", "correct-horse")
    config: dict[str, Json] = {
        "command": "/bin/sh -c 'echo no $KEY here >&2; exit 3'", "env": {"KEY": "${DESK_KEY}"},
        "sandbox": "folder",
    }  # fmt: skip
    async with connected(database, tmp_path, None, **config) as tree:
        with pytest.raises(InvalidOperation, match=r"with status 3: no ••• here$"):
            await tree.connectors.list_tools("desk")
