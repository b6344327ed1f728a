"""A run may do what its sender, its agent and its message all permit, and nothing else.

Combinations of a sender, a persona, a limit of the message and perhaps a token are drawn at random.
Each becomes a run on a real database with a worker. Its model asks for every tool there is. Each
tool notes that it ran, and which credentials it could read in three ways. The run continues one of
several threads, which fork from each other and of which some are private. What it recalls and reads
must be its own thread, if both the sender and the person behind the sender may see that. A second
opinion knows no algebra: it asks each layer by the rules of a shell's patterns.

Then the same is asked of products with a planted fault that widens rights, each of which must be
found.
"""

import fnmatch
import os
import random
import re
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final
from unittest import mock

from proofs.figures import Proof, run, temporary_server
from turntree import ExecutionContext, Permissions, Principal, Settings, Tree, function_tool
from turntree.auth import run_rights
from turntree.auth.execution_context import current
from turntree.auth.permissions import ALL_BUT_CREDENTIALS, EVERYTHING
from turntree.auth.persona import TOOLSETS, Persona, persona_of
from turntree.boot.open import load_token_key, open_tree
from turntree.core.canonical import Json
from turntree.core.errors import NotFound, PermissionDenied
from turntree.core.ids import TurnId, instant, unix_ms
from turntree.core.message import ErasedMessage, Message, ToolResult, assistant, user
from turntree.core.principal import SYSTEM
from turntree.runs import request_resolver
from turntree.system.clock import SystemClock
from turntree.tools.toolset import ToolContext

COMBINATIONS, COMBINATIONS_QUICK = 2_000, 36
REPORTED_EVERY: Final = 100
CONTROL_MAX: Final = 24
"""Combinations after which a planted fault counts as missed."""
AGENTS, AGENTS_FEW = 24, 8
QUICK_SERVER: Final = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
TOOLS: Final = ("read_file", "read_mail", "write_file", "search_web", "exec", "task_list")
RECALL, READ = "ledger.recall", "ledger.read"
TRUNKS, TRUNKS_FEW = 8, 4
CREDENTIALS: Final = ("PROOF_GIT_TOKEN", "PROOF_MAIL_KEY", "PROOF_WEB_KEY")
PATTERNS: Final = ("tool:*", "tool:read*", "tool:read_file", "tool:write*", "tool:exec",
                   "tool:search*", "tool:task*", "tool:ledger.*", "tool:ledger.read",
                   "credential:*", "credential:PROOF_GIT*", "credential:PROOF_MAIL_KEY",
                   "action:*")  # fmt: skip
TURN: Final = (
    b"SELECT permissions_granted, permissions_used FROM ledger.turns WHERE id = %(turn)b::uuid"
)
SCRIPT: Final[dict[str, Json]] = {
    "provider_type": "scripted",
    "rules": [{"when": "go", "replies": [
        {"tools": [
            *({"tool": name, "args": {}} for name in TOOLS),
            {"tool": RECALL, "args": {"words": "code of the depot"}},
            *({"tool": READ, "args": {"address": address}} for address in "12"),
        ]},
        {"text": "done"},
    ]}],
}  # fmt: skip
MINUTE_MS: Final = 60_000
COUNTED: Final = ("tool:", "credential:PROOF_")
"""A run that may read every variable hands all of them to the processes that a tool starts."""
BEE: Final = Principal("agent", "bee")
_CODE: Final = re.compile(r"code-\w+")


@dataclass(slots=True)
class Seen:
    """What the tools of one run did and could see."""

    ran: set[str] = field(default_factory=set[str])
    credentials: set[str] = field(default_factory=set[str])
    leaks: set[str] = field(default_factory=set[str])
    """Credentials that could be read in one way and not in another."""


@dataclass(frozen=True, slots=True)
class Layer:
    """Patterns that allow, None for everything of some kinds, and patterns that deny."""

    allow: tuple[str, ...]
    deny: tuple[str, ...] = ()

    def permits(self, right: str) -> bool:
        """Return what a shell's patterns say."""
        return any(fnmatch.fnmatchcase(right, one) for one in self.allow) and not any(
            fnmatch.fnmatchcase(right, one) for one in self.deny
        )


@dataclass(frozen=True, slots=True)
class Place:
    """A turn that a run can continue, with the codes that its thread mentions."""

    turn: TurnId
    codes: frozenset[str]
    is_hidden_from_bee: bool


@dataclass(slots=True)
class Stage:
    """A tree with a worker, agents of known permissions, and what its tools saw."""

    tree: Tree
    settings: Settings
    chance: random.Random
    seen: dict[str, Seen]
    agents: dict[str, tuple[Layer, ...]] = field(default_factory=dict[str, tuple[Layer, ...]])
    places: list[Place] = field(default_factory=list[Place])


async def prove(proof: Proof) -> None:
    """Draw combinations, compare what happened with the second opinion, look for plants."""
    count = COMBINATIONS_QUICK if proof.quick else COMBINATIONS
    with temporary_server(QUICK_SERVER) as (server, home):
        os.environ.update({name: f"secret of {name}" for name in CREDENTIALS})
        settings = Settings(home / "proof", database_url=server, user="ana")
        if proof.begins("combinations"):
            await prove_combinations(proof, settings, count)
        if proof.begins("plants"):
            missed = [name for name in PLANTS if not await is_found(settings, name)]
            found = len(PLANTS) - len(missed)
            proof.at_least(f"planted faults found (missed: {missed})", found, "faults", len(PLANTS))


async def prove_combinations(proof: Proof, settings: Settings, count: int) -> None:
    """Run combinations and compare each with the second opinion."""
    agents, trunks = (AGENTS_FEW, TRUNKS_FEW) if proof.quick else (AGENTS, TRUNKS)
    async with a_stage(settings, random.Random(proof.seed), agents, trunks) as stage:
        wrong, calls, codes = 0, 0, 0
        for number in range(1, count + 1):
            compared = await compare(stage)
            wrong += not compared.is_right
            calls, codes = calls + compared.calls, codes + compared.codes
            if number % REPORTED_EVERY == 0:
                print(f"{number} of {count} combinations, {wrong} differ", file=sys.stderr)
    proof.at_least("combinations run", count, "runs", count)
    proof.note("calls that were permitted and ran", calls, "calls")
    proof.note("codes that were recalled or read in the ledger", codes, "codes")
    proof.at_most("runs that did or saw other than the intersection", wrong, "runs", 0)


@asynccontextmanager
async def a_stage(
    settings: Settings, chance: random.Random, agents: int, trunks: int
) -> AsyncGenerator[Stage, None]:
    """Open a tree whose worker has the tools, and create agents and threads."""
    seen: dict[str, Seen] = {}
    async with open_tree(
        settings, worker=True, tools=[a_tool(name, seen) for name in TOOLS]
    ) as tree:
        stage = Stage(tree, settings, chance, seen)
        if await tree.programs.find("script") is None:
            await tree.programs.create("provider", "script", SCRIPT)
            await tree.programs.create(
                "model", "echo", {"model_id": "scripted-1", "provider": "@(script)"}
            )
        for number in range(agents):
            await create_agent(stage, f"a{chance.getrandbits(40):x}", number)
        for number in range(trunks):
            await grow_trunk(stage, f"t{chance.getrandbits(40):x}", number)
        yield stage


async def create_agent(stage: Stage, name: str, number: int) -> None:
    """Create an agent with drawn permissions, and note them as layers."""
    chance = stage.chance
    allow, deny = some(chance, PATTERNS, 1), some(chance, PATTERNS, 0, 2)
    credentials = some(chance, CREDENTIALS, 0)
    toolset = chance.choice([None, None, "manager", "worker", "full"])
    config: dict[str, Json] = {"credentials": [*credentials], "default_model": "@(echo)"}
    allowed: tuple[str, ...] = ("tool:*", "action:*")
    if number % 3:
        allowed = allow
        config["permissions"] = {"allow": [*allow], "deny": [*deny]}
    else:
        config["permissions"] = {"deny": [*deny]}
    if toolset is not None:
        config["toolset"] = toolset
    given = TOOLSETS[toolset or "full"].tools
    await stage.tree.programs.create("agent", name, config)
    stage.agents[name] = (
        Layer((*allowed, *(f"credential:{one}" for one in credentials)), deny),
        Layer((*given, "credential:*", "action:*")),
    )


async def grow_trunk(stage: Stage, name: str, number: int) -> None:
    """Record a thread of two turns and a fork after the first; every other trunk is private."""
    tree = stage.tree
    first = await tell(stage, name, frozenset())
    second = await tell(stage, name, first[1])
    await tree.sessions.fork(first[0], f"{name}-fork")
    forked = await tell(stage, f"{name}-fork", first[1])
    is_private, is_granted = number % 2 == 1, number % 4 == 1
    for session in (name, f"{name}-fork") if is_private else ():
        await tree.programs.set_visibility(session, "private")
        if is_granted:
            await tree.programs.grant(session, str(BEE), "invoke")
    is_hidden = is_private and not is_granted
    stage.places += [Place(*head, is_hidden) for head in (first, second, forked)]


async def tell(stage: Stage, session: str, before: frozenset[str]) -> tuple[TurnId, frozenset[str]]:
    """Record a turn with a code; return it and the codes of its thread."""
    code = f"code-{stage.chance.getrandbits(60):x}"
    recorder = await stage.tree.recorder(session)
    told = await recorder.record([user(f"the code of the depot is {code}")], [assistant("noted")])
    return told.turn.id, before | {code}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Whether a run did what the second opinion says, and how much that was."""

    is_right: bool
    calls: int
    codes: int


async def compare(stage: Stage) -> Comparison:
    """Run one drawn combination."""
    chance, tree = stage.chance, stage.tree
    agent = chance.choice([*stage.agents])
    layers = [*stage.agents[agent]]
    context, sender = await draw_sender(stage)
    layers += sender
    limits: dict[str, Any] = {}
    if chance.random() < 1 / 2:
        allow, deny = some(chance, PATTERNS, 1), some(chance, PATTERNS, 0, 2)
        limits = {"permissions": {"allow": [*allow], "deny": [*deny]}}
        layers.append(Layer(allow, deny))
    place = chance.choice(stage.places)
    fork = await tree.sessions.fork(place.turn, f"s{chance.getrandbits(60):x}")
    with context.entered():
        answered = await tree.runs.ask(fork.label, "go", agent=agent, **limits)
    turn = answered.turn.turn
    saw = stage.seen.get(turn.id, Seen())
    tools = {name for name in TOOLS if permits(layers, f"tool:{name}")}
    readable = {name for name in CREDENTIALS if permits(layers, f"credential:{name}")}
    is_hidden = place.is_hidden_from_bee and str(context.principal) == str(BEE)
    expected_codes: dict[str, frozenset[str]] = {
        name: place.codes if permits(layers, f"tool:{name}") and not is_hidden else frozenset()
        for name in (RECALL, READ)
    }
    codes = codes_seen(turn.reply)
    database = tree.ledger.database
    ((granted, used),) = await database.fetch(TURN, turn=turn.id)
    recorded = Permissions.from_json(granted)
    expected = {
        f"tool:{name}" for name in (*TOOLS, RECALL, READ) if permits(layers, f"tool:{name}")
    }
    if tools:
        expected |= {f"credential:{name}" for name in readable}
    by = turn.header.by
    is_right = (
        saw.ran == tools
        and saw.credentials == (readable if tools else set())
        and not saw.leaks
        and codes == expected_codes
        and {one for one in used or () if one.startswith(COUNTED)} == expected
        and all(recorded.permits(one) and permits(layers, one) for one in used or ())
        and str(by) == f"agent:{agent}"
        and by.on_behalf_of == context.principal
    )
    return Comparison(is_right, len(saw.ran), sum(map(len, codes.values())))


def codes_seen(reply: Sequence[Message | ErasedMessage]) -> dict[str, frozenset[str]]:
    """Return the codes in the results of each of the ledger's tools."""
    messages = [message for message in reply if isinstance(message, Message)]
    tools = {use.call_id: use.tool for message in messages for use in message.tool_uses}
    seen: dict[str, frozenset[str]] = {RECALL: frozenset(), READ: frozenset()}
    for message in messages:
        for result in message.tool_results:
            name = str(tools.get(result.call_id))
            if name in seen and isinstance(result, ToolResult):
                seen[name] |= {*_CODE.findall(str(result.output))}
    return seen


async def draw_sender(stage: Stage) -> tuple[ExecutionContext, list[Layer]]:
    """Return a sender: a person, or an agent with a token of hers, and what each permits."""
    chance = stage.chance
    person, layers = EVERYTHING, []
    if chance.random() < 1 / 2:
        layer = Layer(some(chance, PATTERNS, 2))
        person, layers = Permissions.of_patterns(layer.allow), [layer]
    context = ExecutionContext.begin(Principal("human", "ana"), person)
    if chance.random() < 1 / 2:
        layer = Layer(some(chance, PATTERNS, 2), some(chance, PATTERNS, 0, 1))
        rights = Permissions.of_patterns(layer.allow, layer.deny)
        key, tokens = load_token_key(stage.settings), stage.tree.tokens
        until = instant(unix_ms(SystemClock().now()) + MINUTE_MS)
        delegated = context.delegate(BEE, rights)
        token, _ = await tokens.issue(delegated, key=key, audience="proof", expires_at=until)
        context = await tokens.open(token, key=key, audience="proof")
        layers.append(layer)
    return context, layers


def permits(layers: Sequence[Layer], right: str) -> bool:
    """Return whether every layer permits a right."""
    return all(layer.permits(right) for layer in layers)


def some(
    chance: random.Random, names: Sequence[str], low: int, high: int | None = None
) -> tuple[str, ...]:
    """Return a few of the names."""
    return tuple(chance.sample(names, chance.randint(low, len(names) if high is None else high)))


def a_tool(name: str, seen: dict[str, Seen]) -> Callable[..., str]:
    """Return a tool that notes what it can reach."""

    def look(occasion: ToolContext) -> str:
        saw = seen.setdefault(occasion.run, Seen())
        saw.ran.add(name)
        child = subprocess.run(["/usr/bin/env"], capture_output=True, text=True, check=True).stdout
        for credential in CREDENTIALS:
            ways = (
                credential in os.environ,
                can_get(credential),
                f"{credential}=" in child,
            )
            if any(ways):
                saw.credentials.add(credential)
            if any(ways) and not all(ways):
                saw.leaks.add(credential)
        return "ran"

    return function_tool(name=name)(look)


def can_get(credential: str) -> bool:
    """Return whether the context gives a credential."""
    try:
        current().get_credential(credential)
    except (PermissionDenied, NotFound):
        return False
    return True


async def is_found(settings: Settings, name: str) -> bool:
    """Return whether a planted fault shows in a few combinations."""
    with PLANTS[name]():
        async with a_stage(settings, random.Random(name), AGENTS_FEW, TRUNKS_FEW) as stage:
            for _ in range(CONTROL_MAX):
                # The ledger itself refuses some messages under a fault: these widen nothing.
                with suppress(PermissionDenied):
                    if not (await compare(stage)).is_right:
                        return True
    return False


def without_limits(started: Mapping[str, Json], persona: Persona | None) -> Permissions:
    """Return the rights of a run, without the limits of its message."""
    rights = ALL_BUT_CREDENTIALS if persona is None else persona.granted
    return run_rights.chain_of(started, rights).rights


def without_deny(agent: str, version: int, config: Mapping[str, Any]) -> Persona:
    """Return a persona that may do what its agent's config denies."""
    given = dict(config.get("permissions") or {})
    given.pop("deny", None)
    return PERSONA_OF(agent, version, {**config, "permissions": given})


PERSONA_OF: Final = persona_of
PLANTS: Final[Mapping[str, Callable[[], AbstractContextManager[object]]]] = {
    "limits of the message": lambda: mock.patch.object(
        request_resolver, "rights_in", without_limits
    ),
    "rights of the sender": lambda: mock.patch.object(
        ExecutionContext, "links", property(lambda _: None)
    ),
    "what the agent denies": lambda: mock.patch.object(
        request_resolver, "persona_of", without_deny
    ),
    "toolset of the agent": lambda: mock.patch.object(
        Persona, "granted", property(lambda self: self.permitted)
    ),
    "credentials of the persona": lambda: mock.patch.object(
        ExecutionContext, "may_list", lambda self, name: name in self.environment
    ),
    "view of the sender in the ledger": lambda: mock.patch(
        "turntree.boot.worker.reader_of", return_value=SYSTEM
    ),
    "environment of the worker": lambda: mock.patch(
        "turntree.boot.worker._find_reader", return_value=None
    ),
}
"""Faults that widen the rights of a run, each in one place."""


if __name__ == "__main__":
    run(prove, __doc__)
