"""Requests to a server on the network, as callers of every kind."""

import json
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from proofs.http_world import TEAM, Team
from tests.workshop import Workshop
from turntree.boot.open import tree_on
from turntree.core.ids import Timestamp, WorkspaceId, instant, unix_ms
from turntree.core.viewer import EVERYTHING
from turntree.db.database import Database
from turntree.runs.engines.inline import InlineEngine
from turntree.runs.inbox_store import InboxStore
from turntree.runs.worker_store import WorkerStore
from turntree.system.clock import SystemClock
from turntree.testing.fakes import FakeClock

SOON_S = 10.0
API = f"/w/{TEAM}/api/v1"


class Client:
    """Sends requests as one caller or another."""

    def __init__(self, http: httpx2.AsyncClient, team: Team) -> None:
        self.http = http
        self.team = team

    async def get(self, caller: str, path: str, **headers: str) -> httpx2.Response:
        sent = {**self.team.headers(caller), **_named(headers)}
        return await self.http.get(f"{API}{path}", headers=sent)

    async def post(
        self, caller: str, path: str, body: dict[str, Any], *, key: str = "", **headers: str
    ) -> httpx2.Response:
        key = key or secrets.token_hex(8)
        sent = {**self.team.headers(caller), "idempotency-key": key, **_named(headers)}
        return await self.http.post(f"{API}{path}", json=body, headers=sent)

    async def of_workspace(self, name: str) -> Database:
        """Return a workspace of the team's database."""
        everything = self.team.database.seen_by(EVERYTHING)
        ids = {called: id for id, called in await everything.list_workspaces()}
        return self.team.database.in_workspace(WorkspaceId(ids[name]))

    @asynccontextmanager
    async def follow(
        self, caller: str, run: str, after: str = ""
    ) -> AsyncGenerator[AsyncGenerator[tuple[str, str, Any], None], None]:
        """Yield the messages of a stream: the id, the kind and the document of each."""
        headers = {**self.team.headers(caller), **({"last-event-id": after} if after else {})}
        async with self.http.stream("GET", f"{API}/runs/{run}/events", headers=headers) as answer:
            assert answer.status_code == 200, answer.status_code
            assert answer.headers["content-type"].startswith("text/event-stream")
            yield _messages(answer)


def _named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): text for name, text in headers.items()}


async def _messages(answer: httpx2.Response) -> AsyncGenerator[tuple[str, str, Any], None]:
    position = kind = ""
    async for line in answer.aiter_lines():
        name, _, text = line.partition(": ")
        if name == "id":
            position = text
        elif name == "event":
            kind = text
        elif name == "data":
            yield position, kind, json.loads(text)


def problem(answer: httpx2.Response) -> str:
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    return str(answer.json()["type"]).rpartition(":")[2]


async def denials(team: Team, workspace: str = TEAM) -> set[tuple[str, str]]:
    """Return who was denied what."""
    everything = team.database.seen_by(EVERYTHING)
    ids = {name: id for id, name in await everything.list_workspaces()}
    database = team.database.in_workspace(WorkspaceId(ids[workspace]))
    feed = tree_on(database, team.settings, SystemClock(), sight=EVERYTHING).feed
    found: set[tuple[str, str]] = set()
    for _, event in await feed.read(limit=1000):
        if event.kind == "permission.denied":
            by: Any = event.data["by"]
            found.add((by["id"], str(event.data["permission"])))
    return found


def later(ms: int = 60_000) -> Timestamp:
    return instant(unix_ms(SystemClock().now()) + ms)


async def answer_all(team: Team, label: str) -> None:
    """Answer what waits in a session, as a worker does."""
    session = await team.tree.sessions.get(label)
    database = team.database.seen_by(EVERYTHING)
    engine = InlineEngine(database.lend)
    shop = Workshop(
        team.tree, database, FakeClock(), engine, InboxStore(database, engine),
        WorkerStore(database, engine), session.id,
    )  # fmt: skip
    await shop.actor().handle(session.id)
