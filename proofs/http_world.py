"""A team on a server: people with keys of every kind, and a server that they can all reach.

The server is the typed command in a process of its own, or the same application in this process,
where a proof can take something away from it. Both listen on a free port of loopback.
"""

import asyncio
import contextlib
import json
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import uvicorn

from turntree import Permissions, Settings, Tree
from turntree.auth.identities.identity import ProvenAccount
from turntree.auth.permissions import EVERYTHING, actions
from turntree.boot.open import connect, engine_on, tree_on
from turntree.core.ids import Timestamp, instant, unix_ms
from turntree.core.message import assistant, user
from turntree.core.principal import Principal
from turntree.db.database import Database
from turntree.policy.approval import ForeignCall
from turntree.runs.engines.lazy import LazyEngine
from turntree.server.access.network_callers import make_callers
from turntree.server.access.oidc.config import IdentityProviderConfig
from turntree.server.access.proxies import TrustedProxies
from turntree.server.access.rate_limits import RateLimits
from turntree.server.access.session_cookie import cookie_name
from turntree.server.app import make_network_app, make_network_door
from turntree.server.keys import SECRET_BYTES, AccessKeys
from turntree.server.page import Page
from turntree.server.route import ApiRoute
from turntree.server.routes import NETWORK_ROUTES
from turntree.system.clock import SystemClock

COMMAND: Final = "from turntree.cli.main import main; main()"
UNLIMITED: Final = RateLimits(0, 0)
TEAM, OTHER = "team", "other"
OWNER: Final = "olga"
HOUR_MS: Final = 3_600_000
BRIEF_MS: Final = 150
CANARY: Final = "the depot opens with canary"
"""What only the owner's private sessions say, each with its own number."""


@dataclass(frozen=True, slots=True)
class Vault:
    """A private session of the owner."""

    label: str
    turns: tuple[str, ...]
    digest: str
    secrets: tuple[str, ...]
    """Texts that no answer to another caller may contain."""
    key: str = ""
    """The id of an API key of the owner, for routes that end one."""
    invitation: str = ""
    """The id of an open invitation, for routes that end one."""
    login: str = ""
    """The id of a login session of the owner, for routes that end one."""
    identity: str = ""
    """The id of a linked account of the owner, for routes that unlink one."""
    notice: str = ""
    """The id of a notice of the owner, for routes that read one."""
    approval: str = ""
    """The id of a request to the owner, for routes that answer one."""
    conversation: str = ""
    """The name of a conversation of the owner, for routes of conversations."""
    webhook: str = ""
    """The id of a webhook of the owner, for routes of webhooks."""
    trigger: str = ""
    """The id of a trigger of the owner, for routes of triggers."""


@dataclass(slots=True)
class Team:
    """A workspace in use, the keys of its people, and a second workspace."""

    tree: Tree
    database: Database
    settings: Settings
    engine: LazyEngine
    keys: dict[str, str] = field(default_factory=dict[str, str])
    """By caller; those who have none are not listed."""
    logins: dict[str, str] = field(default_factory=dict[str, str])
    """The codes of login sessions, by caller."""

    def headers(self, caller: str, url: str = "") -> dict[str, str]:
        """Return the headers with which a caller says who they are, to a server at an address."""
        if caller in self.logins:
            name = cookie_name("login", url.removeprefix("http://"), TEAM)
            return {"cookie": f"{name}={self.logins[caller]}", "origin": url}
        key = self.keys.get(caller)
        return {} if key is None else {"authorization": f"Bearer {key}"}

    async def log_in(self, caller: str, person: str) -> str:
        """Begin a login session for a caller, and return its id."""
        made, self.logins[caller] = await self.tree.login_sessions.begin(
            Principal("human", person), method="invitation", verified_at=SystemClock().now()
        )
        return made.id

    async def add_login(self, vault: Vault) -> Vault:
        """Return a vault with a login session of the owner, as if in another browser."""
        id = await self.log_in(vault.label, OWNER)
        return replace(vault, login=id, secrets=(*vault.secrets, self.logins.pop(vault.label)))

    async def add_identity(self, vault: Vault) -> Vault:
        """Return a vault with a linked account of the owner."""
        await self.log_in(vault.label, OWNER)
        login = await self.tree.login_sessions.verify(self.logins.pop(vault.label))
        account = ProvenAccount("https://id.example.net", vault.label)
        id = await self.tree.identities.link(account, login)
        return replace(vault, identity=id)

    async def add_vault(self, number: int) -> Vault:
        """Return a new private session of the owner, with two turns."""
        label = f"vault-{number}-{secrets.token_hex(3)}"
        tree = self.of(OWNER)
        await tree.sessions.create(label, visibility="private")
        placed = [
            await tree.turns.record(
                label, [user(f"{CANARY} {label} {step}")], [assistant(f"opened {step}")]
            )
            for step in (1, 2)
        ]
        turns = tuple(str(one.turn.id) for one in placed)
        digests = tuple(one.turn.digest.removeprefix("sha256:") for one in placed)
        return Vault(label, turns, digests[-1], (CANARY, *turns, *digests))

    async def add_notice(self, vault: Vault) -> Vault:
        """Return a vault with a notice for the owner."""
        person = await self.tree.programs.ensure("human", OWNER, {})
        await self.tree.programs.invoke(person.name, {"message": f"{CANARY} {vault.label}"})
        notice = (await self.of(OWNER).inbox.list_page(limit=1))[0]
        return replace(vault, notice=notice.id, secrets=(*vault.secrets, notice.id))

    async def add_approval(self, vault: Vault) -> Vault:
        """Return a vault with a request of the owner's coding agent, which only they see."""
        call = ForeignCall("codex", "shell", {"command": f"{CANARY} {vault.label}"}, vault.label)
        asked = await self.of(OWNER).approvals.request_foreign(call)
        return replace(vault, approval=asked.id, secrets=(*vault.secrets, asked.id))

    async def add_conversation(self, vault: Vault) -> Vault:
        """Return a vault with a private conversation of the owner and one who is no caller."""
        friend, name = f"human:friend-of-{vault.label}", f"talk-{vault.label}"
        await self.tree.members.add(friend)
        await self.tree.members.add(f"human:late-{vault.label}")
        talk = self.of(OWNER).conversations
        made = await talk.create(name, title=f"{CANARY} talk", participants=[friend])
        await talk.post(name, f"{CANARY} is said here")
        return replace(vault, conversation=name, secrets=(*vault.secrets, made.id))

    async def add_key(self, vault: Vault) -> Vault:
        """Return a vault with a new API key of the owner."""
        made, key = await self.of(OWNER).keys.create(vault.label, expires_at=later(HOUR_MS))
        return replace(vault, key=made.id, secrets=(*vault.secrets, key))

    async def add_webhook(self, vault: Vault) -> Vault:
        """Return a vault with a new webhook of the owner."""
        made, secret = await self.of(OWNER).webhooks.create("https://example.net/hook")
        return replace(vault, webhook=made.id, secrets=(*vault.secrets, secret))

    async def add_trigger(self, vault: Vault) -> Vault:
        """Return a vault with a new trigger of the owner."""
        made, secret = await self.of(OWNER).triggers.create(vault.label, "inbox")
        return replace(vault, trigger=made.id, secrets=(*vault.secrets, secret))

    async def add_invitation(self, vault: Vault) -> Vault:
        """Return a vault with an open invitation."""
        made, code = await self.tree.invitations.create(
            f"for-{vault.label}", expires_at=later(HOUR_MS)
        )
        return replace(vault, invitation=made.id, secrets=(*vault.secrets, code))

    def settings_of(self, workspace: str, person: str) -> Settings:
        """Return the settings of a person in one of the workspaces."""
        return replace(self.settings, workspace=workspace, user=person)

    def of(self, person: str) -> Tree:
        """Return the workspace as a person sees it."""
        settings = self.settings_of(TEAM, person)
        return tree_on(self.database, settings, SystemClock(), engine=self.engine)


@contextlib.asynccontextmanager
async def a_team(conninfo: str, home: Path) -> AsyncGenerator[Team, None]:
    """Open a workspace with people of every role, and keys in every state."""
    settings = Settings(home, database_url=conninfo, workspace=TEAM, user="ana")
    clock = SystemClock()
    async with (
        connect(settings, clock) as database,
        connect(replace(settings, workspace=OTHER), clock) as elsewhere,
    ):
        engine = engine_on(database)
        # What is sent here waits: no worker has to be told.
        engine.stay_here()
        tree = tree_on(database, settings, clock, engine=engine)
        team = Team(tree, database, settings, engine)
        await team.tree.turns.record("lobby", [user("hello")], [assistant("good morning")])
        for person, role in ((OWNER, "member"), ("mia", "member"), ("gus", "guest")):
            await team.tree.members.add(person, role)  # type: ignore[arg-type]
        await team.tree.members.add("rex", "member")
        await _issue_keys(team)
        team.keys["garbled"] = f"{team.keys['owner'][:-1]}~"
        await team.tree.members.remove("rex")
        zoe = tree_on(elsewhere, replace(settings, workspace=OTHER, user="zoe"), clock)
        await zoe.turns.record("away", [user("hello")], [assistant("good night")])
        _, team.keys["other workspace"] = await zoe.keys.create("zoe", expires_at=later(HOUR_MS))
        yield team


async def _issue_keys(team: Team) -> None:
    async def issue(
        caller: str,
        person: str,
        *,
        scopes: Permissions = EVERYTHING,
        agent: str | None = None,
        life_ms: int = HOUR_MS,
    ) -> str:
        made, key = await team.of(person).keys.create(
            caller, expires_at=later(life_ms), scopes=scopes, agent=agent
        )
        team.keys[caller] = key
        return made.id

    await issue("admin", "ana")
    await issue("owner", OWNER)
    await issue("member", "mia")
    await issue("guest", "gus")
    await issue("agent on behalf", OWNER, agent="atlas")
    await issue("narrowed to reading", OWNER, scopes=Permissions(actions("read")))
    await issue("narrowed to sending", OWNER, scopes=Permissions(actions("invoke")))
    await issue("removed", "rex")
    await issue("expired", OWNER, life_ms=BRIEF_MS)
    await team.of(OWNER).keys.revoke(await issue("revoked", OWNER), reason="a proof")
    await team.log_in("logged in", "mia")
    await team.tree.login_sessions.end(await team.log_in("logged out", OWNER))
    await team.log_in("logged in, then removed", "rex")
    await asyncio.sleep(2 * BRIEF_MS / 1000)


def later(ms: int = HOUR_MS) -> Timestamp:
    return instant(unix_ms(SystemClock().now()) + ms)


@contextlib.asynccontextmanager
async def serving_here(
    team: Team,
    routes: Sequence[ApiRoute] = NETWORK_ROUTES,
    *,
    names: Sequence[str] = (),
    page: Page | None = None,
    providers: Sequence[IdentityProviderConfig] = (),
    rates: RateLimits = UNLIMITED,
    proxies: TrustedProxies | None = None,
) -> AsyncGenerator[str, None]:
    """Run the application in this process, and yield where it is; ``names`` are more host names."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    keys = AccessKeys(secrets.token_bytes(SECRET_BYTES), "proof", port, time.time)
    async with contextlib.AsyncExitStack() as stack:
        callers = await make_callers(
            team.tree, team.database, team.settings, keys, stack,
            providers=providers, rates=rates, proxies=proxies,
        )  # fmt: skip

        async def is_ready() -> bool:
            return True

        door = make_network_door(
            make_network_app(callers, is_ready, routes=routes, page=page),
            keys,
            {f"127.0.0.1:{port}", *names},
        )
        server = uvicorn.Server(
            uvicorn.Config(
                door,
                log_level="critical",
                access_log=False,
                lifespan="off",
                ws="none",
                timeout_graceful_shutdown=1,
                # As the command: who is trusted to name a client is decided by ``proxies``.
                proxy_headers=False,
            )
        )
        task = asyncio.create_task(server.serve([listener]))
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            await task


@dataclass(frozen=True, slots=True)
class ServeProcess:
    """The typed command, and what it printed."""

    process: asyncio.subprocess.Process
    told: Mapping[str, Any]

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.told['port']}"


START_S: Final = 180.0
"""Seconds a process gets to start. It works for two of them, but a busy machine makes it wait."""
_SERVE: Final = (sys.executable, "-c", COMMAND, "serve", "--port", "0", "--json")


def _environment(settings: Settings, **more: str) -> dict[str, str]:
    return {
        **os.environ,
        "TURNTREE_DATABASE_URL": settings.database_url or "",
        "TURNTREE_HOME": str(settings.home),
        "TURNTREE_WORKSPACE": settings.workspace,
        "TURNTREE_USER": settings.user,
        "TURNTREE_CONFIG": str(settings.home / "config.toml"),
        # Proofs and tests send more than people do.
        "TURNTREE_RATE_LIMIT": "0",
        "TURNTREE_STRANGER_RATE_LIMIT": "0",
        **more,
    }


async def run_refused(settings: Settings, *words: str) -> tuple[int, str]:
    """Run ``turntree serve`` where it does not start; return its status, and what it says."""
    process = await asyncio.create_subprocess_exec(
        *_SERVE, "--no-worker", *words, env=_environment(settings),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    try:
        said, _ = await asyncio.wait_for(process.communicate(), START_S)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, said.decode()


@contextlib.asynccontextmanager
async def serving_apart(
    settings: Settings, *words: str, **more: str
) -> AsyncGenerator[ServeProcess, None]:
    """Run ``turntree serve`` in a process of its own until the block ends.

    ``more`` are variables of its environment.
    """
    process = await asyncio.create_subprocess_exec(
        *_SERVE, *words, env=_environment(settings, **more), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None, "it was asked for"
    try:
        line = await asyncio.wait_for(process.stdout.readline(), START_S)
        yield ServeProcess(process, json.loads(line))
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        await process.wait()
