"""Forks begin alike: what two of them send to a provider differs in their queries and nowhere else.

Random trees are recorded in a real ledger: turns with tools, turns that failed, erased messages,
compactions, budgets so small that threads are cut. At a random turn two sessions fork, each with an
id and a config of its own, and ask something different of an agent with random instructions and
tools. What reaches the provider's server is taken down to the byte.

* ``prompts``: everything before the query is the same bytes.
* ``wire``: with the queries taken out, the requests of both are the same bytes, for the wire
  formats of several vendors.
* ``next``: what a turn was given is the beginning of what the next one is given, except where a
  thread is cut anew, which must stay rare.
* The control puts one fact of the session into the instructions, and every pair must be told apart.
"""

import asyncio
import json
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from proofs.figures import Proof, run, temporary_server
from turntree.api import Tree
from turntree.boot.open import Settings, tree_on
from turntree.core.canonical import Json
from turntree.core.compaction import Compaction
from turntree.core.errors import ProviderError
from turntree.core.ids import RunId, SessionId, TurnId
from turntree.core.message import Message, ToolResult, ToolUse, assistant, tool, user
from turntree.core.program import Program
from turntree.core.run import Run
from turntree.core.viewer import EVERYTHING
from turntree.db.database import ensure_database, open_database, prepare_database
from turntree.ledger.store import Ledger
from turntree.ledger.thread_store import ThreadStore
from turntree.models.prompt import ToolSpec
from turntree.models.provider import Provider
from turntree.models.providers.factory import build_provider
from turntree.runs.model_call import PromptInput
from turntree.runs.request_builder import BuiltRequest, RequestBuilder
from turntree.runs.request_resolver import RequestResolver
from turntree.testing.fakes import FakeClock
from turntree.tools.toolset import ToolContext

TREES, TREES_QUICK = 1000, 40
TURNS_MAX = 14
NEXT_TURNS, NEXT_TURNS_QUICK = 1000, 160
CUTS_BAR = 0.05
"""Of a hundred turns, five may begin anew; if the cut slid along, nearly all of them would."""
QUICK_SERVER = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
WORDS = (
    "redirect",
    "login",
    "resolver",
    "cache",
    "茶色",
    "über",
    "{}",
    "[]",
    "\\n",
    '"so"',
    "retry",
)
VENDORS = {
    "anthropic": {"provider_type": "anthropic", "path": "", "cache": "5m"},
    "openai": {"provider_type": "openai", "path": "/v1"},
    "openai-chat": {"provider_type": "openai-chat", "path": "/v1"},
}
CONTEXTS = (700, 1200, 12_000, 128_000)


async def prove(proof: Proof) -> None:
    """Show that forks share their prefix, on the wire too, and that this can fail."""
    trees = TREES_QUICK if proof.quick else TREES
    with temporary_server(QUICK_SERVER) as (server, _):
        async with listening() as heard, a_stage(server, heard) as stage:
            await prove_forks(proof, stage, trees)
            if proof.wants("next"):
                turns = NEXT_TURNS_QUICK if proof.quick else NEXT_TURNS
                await prove_next(proof, stage, turns)


async def prove_forks(proof: Proof, stage: "Stage", trees: int) -> None:
    """Fork, ask and compare, tree by tree."""
    chance = random.Random(proof.seed)
    prompts = wire = cut = planted = pairs = 0
    for number in range(trees):
        pair = await fork_pair(stage, chance, number)
        left, right = pair.asked
        prompts += left.prompt.prefix != right.prompt.prefix
        cut += left.prompt.left_out > 0
        for vendor in VENDORS:
            bodies = [await stage.send(vendor, asked) for asked in pair.asked]
            wire += without(bodies[0], pair.queries[0]) != without(bodies[1], pair.queries[1])
            pairs += 1
        spoilt = [spoil(a, s) for a, s in zip(pair.asked, pair.sessions, strict=True)]
        bodies = [await stage.send("anthropic", asked) for asked in spoilt]
        planted += without(bodies[0], pair.queries[0]) != without(bodies[1], pair.queries[1])
    proof.note("random trees", trees, "trees")
    proof.note("trees whose thread was cut", cut, "trees")
    proof.at_most("pairs of forks whose prefixes differ", prompts, "pairs", 0)
    proof.note("pairs of requests on the wire", pairs, "pairs")
    proof.at_most("pairs of requests that differ outside the query", wire, "pairs", 0)
    proof.at_least("control: pairs with a planted fact that differ", planted, "pairs", trees)


async def prove_next(proof: Proof, stage: "Stage", turns: int) -> None:
    """Take turn after turn in one thread that does not fit, and count how often it begins anew."""
    chance = random.Random(proof.seed + 1)
    recorder = await stage.tree.recorder("long")
    before: list[bytes] = []
    anew = slid = 0
    for _ in range(turns):
        query, reply = draw_exchange(chance)
        asked = await stage.ask("long", query[0].text, model="m12000")
        lines = asked.prompt.lines
        anew += bool(before) and lines[: len(before)] != before
        slid += asked.prompt.left_out > 0
        before = lines[: 1 + asked.prompt.thread_messages]
        await recorder.record(query, reply, model="m12000")
    proof.note("turns in a thread that does not fit", slid, "turns")
    proof.at_most("share of turns whose prompt begins anew", anew / turns, "", CUTS_BAR)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two forks of one turn."""

    sessions: tuple[SessionId, ...]
    queries: tuple[str, ...]
    asked: tuple[BuiltRequest, ...]


async def fork_pair(stage: "Stage", chance: random.Random, number: int) -> Pair:
    """Grow a tree, fork it twice at one turn and ask both forks something different."""
    tree, name = stage.tree, f"tree{number}"
    turns = await grow(tree, chance, name)
    tools = chance.sample([one.name for one in stage.shelf.specs], chance.randrange(4))
    config: dict[str, Any] = {"system_prompt": draw_words(chance, 30)}
    for one in tools:
        if await tree.programs.find(one) is None:
            await tree.programs.create("code", one, {"language": "javascript", "source": "0"})
    if chance.random() < 0.7:
        config["tools"] = [f"@({one})" for one in tools]
    await tree.programs.create("agent", f"agent{number}", config)
    at, model = chance.choice(turns), f"m{chance.choice(CONTEXTS)}"
    sessions: list[SessionId] = []
    queries: list[str] = []
    asked: list[BuiltRequest] = []
    for side in ("left", "right"):
        session = await tree.sessions.fork(at, f"{name}-{side}")
        await tree.programs.configure(
            session.label, {"owner": f"@(agent{number})", "default_model": f"@({model})"}
        )
        query = f"{side} {draw_words(chance, 40, plain=True)} {side}"
        sessions.append(session.id)
        queries.append(query)
        # The ledger writes the agent that answers into the options of a message.
        asked.append(await stage.ask(session.label, query, agent=f"agent{number}"))
    return Pair(tuple(sessions), tuple(queries), tuple(asked))


async def grow(tree: Tree, chance: random.Random, name: str) -> list[TurnId]:
    """Record a random tree and return its turns."""
    turns: list[TurnId] = []
    labels = [name]
    for number in range(chance.randrange(1, TURNS_MAX)):
        if turns and chance.random() < 0.2:
            labels.append(f"{name}-branch{number}")
            await tree.sessions.fork(chance.choice(turns), labels[-1])
        label = chance.choice(labels)
        if turns and chance.random() < 0.1 and (await tree.sessions.get_or_create(label)).head:
            thread = await tree.threads.read(label)
            through = chance.randrange(len(thread))
            kept = None if through + 1 == len(thread) else thread[through + 1].turn.id
            compaction = Compaction(thread[through].turn.id, kept, through + 1)
            placed = await tree.turns.record(
                label, [], [assistant(draw_words(chance, 20))], compaction=compaction
            )
        else:
            query, reply = draw_exchange(chance)
            outcome = chance.choice(["completed", "completed", "completed", "failed", "canceled"])
            placed = await tree.turns.record(label, query, reply, outcome=outcome)  # type: ignore[arg-type]
        turns.append(placed.turn.id)
        if chance.random() < 0.05:
            await tree.turns.erase(placed.turn.id, 0, reason="chance")
    return turns


def draw_exchange(chance: random.Random) -> tuple[list[Message], list[Message]]:
    """Draw a query and a reply, with tools now and then."""
    reply: list[Message] = []
    for step in range(chance.randrange(3)):
        calls = [f"call-{step}-{n}" for n in range(chance.randrange(1, 3))]
        uses = [
            ToolUse(id, "tool0", {"n": chance.random(), "w": draw_words(chance, 3)}) for id in calls
        ]
        reply.append(assistant(draw_words(chance, 5), *uses))
        chance.shuffle(calls)
        reply += [tool(ToolResult(id, "ok", draw_words(chance, 20))) for id in calls]
    return [user(draw_words(chance, 20))], [*reply, assistant(draw_words(chance, 20))]


def draw_words(chance: random.Random, count_max: int, *, plain: bool = False) -> str:
    """Draw some words; plain ones are written alike by everybody."""
    known = [word for word in WORDS if word.isalpha() and word.isascii()] if plain else WORDS
    return " ".join(chance.choices(known, k=chance.randrange(1, count_max)))


def without(body: bytes, query: str) -> bytes:
    """Return a request without the words of its query, which must stand in it once."""
    parts = body.split(query.encode())
    assert len(parts) == 2, "the query stands in the request, and once"
    return b"?".join(parts)


def spoil(asked: BuiltRequest, session: SessionId) -> BuiltRequest:
    """Return what would be sent if a fact of the session stood in the instructions."""
    system = (*asked.prompt.system, f"The session is {session}.")
    return replace(asked, prompt=replace(asked.prompt, system=system))


@dataclass(frozen=True, slots=True)
class Shelf:
    """Tools that nobody calls."""

    specs: tuple[ToolSpec, ...]

    async def call(self, use: ToolUse, occasion: ToolContext) -> ToolResult:
        """Do nothing."""
        del occasion
        return ToolResult(use.call_id, "ok", None)


@dataclass(slots=True)
class Heard:
    """A server that takes down what it is sent, and answers nothing."""

    url: str = ""
    bodies: list[bytes] = field(default_factory=list[bytes])


@asynccontextmanager
async def listening() -> AsyncGenerator[Heard, None]:
    """Listen on this machine."""
    heard = Heard()

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        told = json.dumps(
            {"error": {"type": "invalid_request_error", "message": "enough"}}
        ).encode()
        head = f"HTTP/1.1 400 No\r\ncontent-length: {len(told)}\r\n"
        head += "content-type: application/json\r\n\r\n"
        try:
            while True:
                request = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = int(request.split("content-length:")[1].split("\r\n")[0])
                heard.bodies.append(await reader.readexactly(length))
                writer.write(head.encode() + told)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(hear, "127.0.0.1", 0)
    heard.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield heard
    finally:
        server.close()


@dataclass(frozen=True, slots=True)
class Stage:
    """A tree, what assembles prompts there, and providers whose server only listens."""

    tree: Tree
    assembly: RequestBuilder
    shelf: Shelf
    heard: Heard
    providers: dict[str, Provider]

    async def ask(self, label: str, text: str, **options: Any) -> BuiltRequest:
        """Return what a model is given when something is sent to a session."""
        session = await self.tree.sessions.get_or_create(label)
        run = Run(RunId(self.tree.turns.world.new_id()), 1, (user(text),))
        started: dict[str, Json] = {"by": "human:ana", "options": options}
        return await self.assembly(PromptInput(run, session.id, session.head, started))

    async def send(self, vendor: str, asked: BuiltRequest) -> bytes:
        """Return what reaches a vendor's server."""
        self.heard.bodies.clear()
        try:
            async for _ in self.providers[vendor].stream(
                "some-model", asked.prompt, asked.settings
            ):
                pass
        except ProviderError:
            (body,) = self.heard.bodies
            return body
        raise AssertionError("nobody answers here")


@asynccontextmanager
async def a_stage(server: str, heard: Heard) -> AsyncGenerator[Stage, None]:
    """Open a workspace with a few models, and providers of several vendors."""
    world = FakeClock()
    conninfo = await ensure_database(server, "prefix")
    workspace = await prepare_database(conninfo, "prefix", world.new_id())
    async with open_database(conninfo, workspace, sight=EVERYTHING) as database:
        tree = tree_on(database, Settings(Path(), user="ana"), world)
        await tree.programs.create("provider", "nobody", {"provider_type": "scripted"})
        for context in CONTEXTS:
            config: dict[str, Json] = {
                "model_id": "m",
                "provider": "@(nobody)",
                "context_tokens": context,
                "max_tokens": 200,
            }
            await tree.programs.create("model", f"m{context}", config)
        schema: dict[str, Json] = {"type": "object", "properties": {"w": {"type": "string"}}}
        shelf = Shelf(tuple(ToolSpec(f"tool{n}", f"Does {n}.", schema) for n in range(5)))
        pinning = RequestResolver(tree.programs, tree.ledger, ThreadStore(database), [shelf])
        build = provider_builder(tree.ledger, heard)
        providers = {name: build({**config}) for name, config in VENDORS.items()}

        def silent(program: Program) -> Provider:
            del program
            return providers["anthropic"]

        assembly = RequestBuilder(pinning, tree.ledger, tree.turns.threads, silent)
        try:
            yield Stage(tree, assembly, shelf, heard, providers)
        finally:
            for provider in providers.values():
                await provider.aclose()


def provider_builder(ledger: Ledger, heard: Heard) -> Callable[[dict[str, Any]], Provider]:
    """Return what builds a vendor's provider whose server is here."""

    def build(config: dict[str, Any]) -> Provider:
        url = heard.url + config.pop("path")
        return build_provider(
            {**config, "base_url": url}, lambda _: "no-key", objects=ledger.get_object
        )

    return build


if __name__ == "__main__":
    run(prove, "forks send byte-equal prefixes")
