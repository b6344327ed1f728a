"""A run may do what its sender, its agent and its message all permit, and nothing else.

Combinations of a sender, a persona, a limit of the message and perhaps a token are drawn at random.
Each becomes a run on a real database with a worker. Its model asks for every tool there is. Each
tool notes that it ran, and which credentials it could read in three ways. A second opinion knows no
algebra: it asks each layer by the rules of a shell's patterns.

Then the same is asked of products with a planted fault that widens rights, each of which must be
found.
"""

import fnmatch
import os
import random
import subprocess
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
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
from turntree.core.ids import instant, unix_ms
from turntree.runs import request_resolver
from turntree.system.clock import SystemClock
from turntree.tools.toolset import ToolContext

COMBINATIONS, COMBINATIONS_QUICK = 2_000, 36
CONTROL_MAX: Final = 24
"""Combinations after which a planted fault counts as missed."""
AGENTS, AGENTS_FEW = 24, 8
QUICK_SERVER: Final = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
TOOLS: Final = ("read_file", "read_mail", "write_file", "search_web", "exec", "task_list")
CREDENTIALS: Final = ("PROOF_GIT_TOKEN", "PROOF_MAIL_KEY", "PROOF_WEB_KEY")
PATTERNS: Final = ("tool:*", "tool:read*", "tool:read_file", "tool:write*", "tool:exec",
                   "tool:search*", "tool:task*", "credential:*", "credential:PROOF_GIT*",
                   "credential:PROOF_MAIL_KEY", "action:*")  # fmt: skip
TURN: Final = (
    b"SELECT permissions_granted, permissions_used FROM ledger.turns WHERE id = %(turn)b::uuid"
)
SCRIPT: Final[dict[str, Json]] = {
    "provider_type": "scripted",
    "rules": [{"when": "go", "replies": [
        {"tools": [{"tool": name, "args": {}} for name in TOOLS]}, {"text": "done"},
    ]}],
}  # fmt: skip
MINUTE_MS: Final = 60_000
COUNTED: Final = ("tool:", "credential:PROOF_")
"""A run that may read every variable hands all of them to the processes that a tool starts."""


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


@dataclass(slots=True)
class Stage:
    """A tree with a worker, agents of known permissions, and what its tools saw."""

    tree: Tree
    settings: Settings
    chance: random.Random
    seen: dict[str, Seen]
    agents: dict[str, tuple[Layer, ...]] = field(default_factory=dict[str, tuple[Layer, ...]])


async def prove(proof: Proof) -> None:
    """Draw combinations, compare what happened with the second opinion, look for plants."""
    count = COMBINATIONS_QUICK if proof.quick else COMBINATIONS
    with temporary_server(QUICK_SERVER) as (server, home):
        os.environ.update({name: f"secret of {name}" for name in CREDENTIALS})
        settings = Settings(home / "proof", database_url=server, user="ana")
        agents = AGENTS_FEW if proof.quick else AGENTS
        async with a_stage(settings, random.Random(proof.seed), agents) as stage:
            wrong, runs, calls = 0, 0, 0
            for _ in range(count):
                differs, ran = await differing(stage)
                wrong, runs, calls = wrong + differs, runs + 1, calls + ran
            proof.at_least("combinations run", runs, "runs", count)
            proof.note("calls that were permitted and ran", calls, "calls")
            proof.at_most("runs that did or saw other than the intersection", wrong, "runs", 0)
        missed = [name for name in PLANTS if not await is_found(settings, name)]
        found = len(PLANTS) - len(missed)
        proof.at_least(f"planted faults found (missed: {missed})", found, "faults", len(PLANTS))


@asynccontextmanager
async def a_stage(
    settings: Settings, chance: random.Random, agents: int
) -> AsyncGenerator[Stage, None]:
    """Open a tree whose worker has the tools, and create agents."""
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


async def differing(stage: Stage) -> tuple[bool, int]:
    """Run one drawn combination; return whether anything differs, and how many calls ran."""
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
    session = f"s{chance.getrandbits(60):x}"
    with context.entered():
        answered = await tree.runs.ask(session, "go", agent=agent, **limits)
    turn = answered.turn.turn
    saw = stage.seen.get(turn.id, Seen())
    tools = {name for name in TOOLS if permits(layers, f"tool:{name}")}
    readable = {name for name in CREDENTIALS if permits(layers, f"credential:{name}")}
    database = tree.ledger.database
    ((granted, used),) = await database.fetch(TURN, turn=turn.id)
    recorded = Permissions.from_json(granted)
    expected = {f"tool:{name}" for name in tools}
    if tools:
        expected |= {f"credential:{name}" for name in readable}
    by = turn.header.by
    is_right = (
        saw.ran == tools
        and saw.credentials == (readable if tools else set())
        and not saw.leaks
        and {one for one in used or () if one.startswith(COUNTED)} == expected
        and all(recorded.permits(one) and permits(layers, one) for one in used or ())
        and str(by) == f"agent:{agent}"
        and by.on_behalf_of == context.principal
    )
    return not is_right, len(saw.ran)


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
        delegated = context.delegate(Principal("agent", "bee"), rights)
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
        async with a_stage(settings, random.Random(name), AGENTS_FEW) as stage:
            for _ in range(CONTROL_MAX):
                if (await differing(stage))[0]:
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
    "environment of the worker": lambda: mock.patch(
        "turntree.boot.worker._find_reader", return_value=None
    ),
}
"""Faults that widen the rights of a run, each in one place."""


if __name__ == "__main__":
    run(prove, __doc__)
