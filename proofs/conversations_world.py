"""A workspace of three people and four agents, and how its people talk: over HTTP, or here.

Over HTTP, servers and workers are processes of their own that a proof may kill. What a person does
there is repeated until it is done or refused.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx2

import turntree
from proofs.conversations_model import (
    OWNERS,
    PEOPLE,
    PRIVATE,
    RELAY,
    Outcome,
    Story,
    Talk,
)
from proofs.http_world import TEAM, later
from proofs.nodes_world import Member, free_ports
from turntree.api import Tree
from turntree.auth.execution_context import ExecutionContext
from turntree.boot.open import Settings, tree_on
from turntree.client.client import Client
from turntree.client.conversations import ConversationsApi
from turntree.conversations.service import Conversations
from turntree.core.canonical import Json
from turntree.core.errors import (
    Conflict,
    DatabaseUnavailable,
    InvalidOperation,
    NotFound,
    PermissionDenied,
    ServerUnavailable,
    TurntreeError,
)
from turntree.core.ids import WorkspaceId
from turntree.core.principal import Principal
from turntree.core.viewer import EVERYTHING
from turntree.db.database import (
    Database,
    open_database,
)
from turntree.system.clock import SystemClock

RETRY_S: Final = 0.1
SOON_S: Final = 180.0
STUMBLE: Final[Json] = {"failures": [{"kind": "refused"}] * 50}
SCRIPTS: Final[Mapping[str, list[Json]]] = {
    "atlas": [
        {"when": "stumble", "replies": [STUMBLE]},
        {"when": "", "replies": [{"text": "Noted.", "delay_s": 0.05}]},
    ],
    "bravo": [
        {"when": "please relay", "replies": [{"text": f"{RELAY}, can you?"}]},
        {"when": "relay it badly", "replies": [{"text": f"{RELAY}, stumble."}]},
        {"when": "", "replies": [{"text": "Noted, too.", "delay_s": 0.02}]},
    ],
    "clay": [
        {"when": "stumble", "replies": [STUMBLE]},
        {"when": "", "replies": [{"text": "Done."}]},
    ],
    "quiet": [{"when": "", "replies": [{"text": "Between us: noted."}]}],
}
Voice = ConversationsApi | Conversations


@dataclass(slots=True)
class World:
    """A workspace, and how its people talk there."""

    tree: Tree
    """As the system sees it."""
    database: Database
    voices: Mapping[str, Voice]
    clients: Mapping[str, Client] = field(default_factory=dict[str, Client])
    disturbances: int = 0
    is_disturbed: bool = False
    kills: Counter[str] = field(default_factory=Counter[str])


@dataclass(slots=True)
class Told:
    """A story that was told: its conversations, and what came otherwise than expected."""

    story: Story
    talks: list[Talk] = field(default_factory=list[Talk])
    wrong: list[str] = field(default_factory=list[str])
    acts: int = 0


@asynccontextmanager
async def a_world(conninfo: str, home: Path) -> AsyncGenerator[tuple[World, Settings]]:
    """Open a workspace with its people and agents, who talk in this process."""
    settings = Settings(home, database_url=conninfo, workspace=TEAM, user="ana")
    async with turntree.open(settings) as tree:
        seen = {one: seen_by(tree, one) for one in PEOPLE}
        if await tree.programs.find("atlas") is None:
            for name in PEOPLE[1:]:
                await tree.members.add(f"human:{name}")
            for name, rules in SCRIPTS.items():
                owner = seen[OWNERS[name]].programs
                provider: dict[str, Json] = {"provider_type": "scripted", "rules": rules}
                await owner.create("provider", f"script-{name}", provider)
                model: dict[str, Json] = {
                    "model_id": "scripted-1", "provider": f"@(script-{name})",
                }  # fmt: skip
                await owner.create("model", f"model-{name}", model)
                config: dict[str, Json] = {
                    "default_model": f"@(model-{name})", "name": name.title(),
                }  # fmt: skip
                if name == PRIVATE:
                    config["removable_by"] = "owner"
                await owner.create("agent", name, config)
            await seen[OWNERS[PRIVATE]].programs.set_visibility(PRIVATE, "private")
        workspace = WorkspaceId(str(tree.ledger.database.workspace))
        async with open_database(conninfo, workspace, sight=EVERYTHING) as database:
            everything = tree_on(database, settings, SystemClock())
            voices = {one: seen[one].conversations for one in PEOPLE}
            yield World(everything, database, voices), settings


@asynccontextmanager
async def a_cluster(conninfo: str, home: Path) -> AsyncGenerator[tuple[World, Sequence[Member]]]:
    """Open a workspace whose people talk over HTTP, with a server and two workers."""
    async with a_world(conninfo, home) as (world, _), AsyncExitStack() as stack:
        (port,) = free_ports(1)
        await asyncio.to_thread(home.mkdir, exist_ok=True)
        environment = {
            **os.environ,
            "TURNTREE_RATE_LIMIT": "0",
            "TURNTREE_STRANGER_RATE_LIMIT": "0",
            "TURNTREE_DATABASE_URL": conninfo,
            "TURNTREE_HOME": str(home),
            "TURNTREE_WORKSPACE": TEAM,
            "TURNTREE_USER": "ana",
            "TURNTREE_CONFIG": str(home / "config.toml"),
        }
        members = [
            Member("server", ("serve", "--no-worker", "--port", str(port)), environment,
                   home / "server.log"),
            *[Member("worker", ("worker",), environment, home / f"worker-{number}.log")
              for number in range(2)],
        ]  # fmt: skip
        for member in members:
            await member.start()
            stack.push_async_callback(_end_member, member)
        for person in PEOPLE:
            acting = ExecutionContext.begin(Principal("human", person))
            _, key = await world.tree.act_as(acting).keys.create("talk", expires_at=later())
            client = Client(f"http://127.0.0.1:{port}/w/{TEAM}", key)
            world.clients = {**world.clients, person: await stack.enter_async_context(client)}
        world.voices = {one: client.conversations for one, client in world.clients.items()}
        for member in members:
            await member.until_ready()
        yield world, members


async def _end_member(member: Member) -> None:
    if member.process is not None and member.process.returncode is None:
        await member.end(signal.SIGKILL)


def seen_by(tree: Tree, person: str) -> Tree:
    return tree.act_as(ExecutionContext.begin(Principal("human", person)))


async def insist(
    world: World,
    act: Callable[[], Awaitable[Any]],
    *,
    repeated: type[TurntreeError] | None = None,
    waits: bool = False,
) -> tuple[Outcome, Any]:
    """Do something until it is done or refused; ``repeated`` says that an earlier try did it."""
    disturbances, last = world.disturbances, ""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SOON_S):
            while True:
                try:
                    return "done", await act()
                except (ServerUnavailable, DatabaseUnavailable, httpx2.HTTPError) as error:
                    last = repr(error)
                    await asyncio.sleep(RETRY_S)
                except TurntreeError as error:
                    is_disturbed = world.is_disturbed or world.disturbances != disturbances
                    if repeated is not None and isinstance(error, repeated) and is_disturbed:
                        return "done", None
                    if waits and isinstance(error, Conflict):
                        # An agent is being told of it.
                        last = repr(error)
                        await asyncio.sleep(RETRY_S)
                        continue
                    return _outcome(error), None
    raise RuntimeError(f"an act came to no end: {last or 'no answer came'}")


def _outcome(error: TurntreeError) -> Outcome:
    match error:
        case NotFound():
            return "hidden"
        case PermissionDenied():
            return "denied"
        case InvalidOperation():
            return "invalid"
        case _:
            raise error


async def until_quiet(world: World) -> None:
    """Return when no agent has anything to answer."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SOON_S):
            while True:
                with contextlib.suppress(DatabaseUnavailable):
                    row = await world.database.fetch_one(
                        b"SELECT (SELECT count(*) FROM turntree.runs WHERE status <> 'finished')"
                        b" + (SELECT count(*) FROM turntree.session_queues WHERE awake)"
                    )
                    if row is not None and row[0] == 0:
                        return
                await asyncio.sleep(RETRY_S)


def say(words: str) -> None:
    """Tell how far it has come."""
    print(words, file=sys.stderr, flush=True)
