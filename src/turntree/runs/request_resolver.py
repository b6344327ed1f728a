"""Resolves and pins what a run uses: model, parameters, persona, instructions and tools.

Everything that precedes the thread in a prompt becomes an object. The ordered digests form the
manifest, which the turn's header names. Nothing specific to one session enters it, so that two
forks with the same settings share a manifest. This module must never know a prompt.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import Any, Final, cast

import anyio.to_thread
import orjson

from turntree.auth.execution_context import ExecutionContext
from turntree.auth.permissions import ALL_BUT_CREDENTIALS, Permissions, right
from turntree.auth.persona import SPAWN, TOOLSETS, Persona, persona_of
from turntree.auth.run_rights import chain_of, rights_in
from turntree.core.canonical import Json, canonical, digest_bytes
from turntree.core.errors import Conflict, InvalidOperation, PermissionDenied
from turntree.core.ids import Digest, SessionId, TurnId
from turntree.core.manifest import (
    MESSAGE_PROMPT,
    SESSION_PROMPT,
    EntryKind,
    Manifest,
    ManifestEntry,
)
from turntree.core.principal import Principal
from turntree.core.program import Program, name_in
from turntree.core.run import options_of, reader_of
from turntree.core.value import value
from turntree.ledger.store import Ledger
from turntree.ledger.thread_store import ThreadStore
from turntree.models.prompt import ToolSpec, parts_of
from turntree.programs.model_choice import (
    DEFAULT_TOKENS,
    LEARNED,
    Choice,
    WindowSize,
    check_provider,
    choose_for,
    find_window_size,
)
from turntree.programs.registry import Registry
from turntree.programs.store import ProgramStore
from turntree.tools.mcp.description import specs_of as connector_specs
from turntree.tools.program_tools import spec_of
from turntree.tools.toolset import Toolset

PARAMS_RECIPE: Final = "params/1"
OBJECTS_MAX: Final = 4096
_FULL_TOOLSET: Final = canonical(TOOLSETS["full"].to_json())
_ALL_TOOLS: Final = canonical(ALL_BUT_CREDENTIALS.to_json())
_LEADING: Final = ("owner", "default_model", "provider")
"""Config members that lead from a session to its agent, model and provider."""


@value
class ResolvedRequest:
    """The model and its parameters, and the manifest of what precedes the thread."""

    model: str
    """The provider's name for the model."""
    address: str
    """The address of the model's program."""
    provider: Program | None
    settings: Mapping[str, Json]
    manifest: Digest
    entries: Manifest
    window: WindowSize = WindowSize(DEFAULT_TOKENS, "default")
    told: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """What the first request of a run records of it: the source of each value, and versions."""


@value
class ThreadContext:
    """Who replies in a thread, and the instructions that it inherits."""

    persona: Persona | None
    prompt: Digest | None


@value
class WorkbenchOffer:
    """The tools for a session's folder that a run is offered, and what its request records."""

    specs: tuple[ToolSpec, ...] = ()
    record: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """The sandbox profile and the folder, or why there are no such tools."""


FindWorkbench = Callable[[Program, Mapping[str, Json]], Awaitable[WorkbenchOffer]]
"""Returns the tools for the folder of a run, from its agent and the data of ``run.started``."""


async def no_workbench(
    agent: Program,  # noqa: ARG001
    started: Mapping[str, Json],  # noqa: ARG001
) -> WorkbenchOffer:
    """Return no tools."""
    return WorkbenchOffer()


@value
class PreloadedPrograms:
    """A store of programs with some of them already read."""

    store: ProgramStore
    known: Mapping[str, Program]
    asked: frozenset[str]

    async def find(self, name: str, *, by: str) -> Program | None:
        """Return a program or None; one that the first read did not find is not read again."""
        if name in self.known or name in self.asked:
            return self.known.get(name)
        return await self.store.find(name, by=by)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


@value
class RequestResolver:
    """Resolves requests. Objects are cached by digest, which is safe: they never change."""

    programs: Registry
    """Read with the sender's access: the worker has none of its own."""
    ledger: Ledger
    threads: ThreadStore
    toolsets: Sequence[Toolset] = ()
    always: Sequence[ToolSpec] = ()
    """Tools of every agent, even if it lists others only, and of models that have other tools."""
    reserved: Sequence[Toolset] = ()
    """Tools of system agents."""
    find_workbench: FindWorkbench = no_workbench
    on_request: Sequence[ToolSpec] = ()
    """Tools of managers, and of other agents only if they list them."""
    _objects: dict[Digest, bytes] = field(default_factory=dict[Digest, bytes])

    async def choose(
        self, session: SessionId | None, parent: TurnId | None, started: Mapping[str, Json]
    ) -> tuple[ResolvedRequest, dict[Digest, bytes]]:
        """Return what a new run uses, and the objects of its manifest.

        Raises:
            InvalidOperation: No model is configured, or the situation does not exist.
            NotFound: A program that is named does not exist.
        """
        programs, home, settings, agent, choice = await self._resolve(session, parent, started)
        persona = settings.persona
        called = {} if agent is None else await _list_programs(programs, agent)
        is_limited = bool(options_of(started).keys() & {"chain", "permissions"})
        rights = rights_in(started, persona) if persona or is_limited else ALL_BUT_CREDENTIALS
        if agent is not None and (own := _persona_in(agent)) != persona:
            # Any principal may fork a thread under a persona that they wrote themselves. The agent
            # still does only what its own config permits.
            rights = rights.intersect(own.granted)
        # A worker role spawns no agents, unless its permissions say so.
        if agent is not None and not _persona_in(agent).permitted.permits(right("action", SPAWN)):
            called = {name: one for name, one in called.items() if one.kind != "agent"}
        bench = WorkbenchOffer() if agent is None else await self.find_workbench(agent, started)
        is_system = agent is not None and agent.is_system
        toolsets = (*self.toolsets, *self.reserved) if is_system else self.toolsets
        is_manager = agent is not None and _persona_in(agent).role == "manager"
        asked = () if agent is None or is_manager else _among(self.on_request, _listed(agent) or ())
        tools, lacking = offered(
            toolsets, agent, rights, called,
            (*self.always, *(self.on_request if is_manager else ())), (*bench.specs, *asked),
        )  # fmt: skip
        prompts = await self._list_prompts(started, home, settings.prompt, agent)
        entries = await self._pin(
            choice, persona, rights, agent, tools, [*called.values()], prompts
        )
        pins: dict[str, Json] = {
            name: {"address": program.address, "version": program.version.number,
                   "digest": program.version.digest}
            for name, program in (("session", home), ("agent", agent))
            if program is not None
        }  # fmt: skip
        document = choice.to_json()
        recorded: dict[str, Json] = {
            "param_sources": document.pop("values"),
            "versions": {**document, **pins},
            "situation": _mapping(started.get("options")).get("situation")
            or (None if home is None else home.version.config.get("situation")),
            "missing_tools": lacking or None,
            "sandbox": dict(bench.record) or None,
            "role": None if persona is None else persona.role,
        }
        pinned = ResolvedRequest(
            str(choice.values["model_id"].value),
            choice.model.address,
            choice.provider,
            choice.parameters,
            await self._put(canonical(entries.to_json())),
            entries,
            await _find_window(choice),
            {name: value for name, value in recorded.items() if value is not None},
        )
        return pinned, await self.read(entries)

    async def preview(
        self, session: SessionId | None, parent: TurnId | None, started: Mapping[str, Json]
    ) -> Choice:
        """Return the model that a run would use, without storing anything.

        Raises:
            InvalidOperation: No model is configured, or the situation does not exist.
            NotFound: A program that is named does not exist.
        """
        *_, choice = await self._resolve(session, parent, started)
        return choice

    async def restore(
        self, request: Mapping[str, Json]
    ) -> tuple[ResolvedRequest, dict[Digest, bytes]]:
        """Return what a run used, as its request recorded it, and the manifest's objects.

        The current provider of the model is not looked up.

        Raises:
            NotFound: An object is gone.
        """
        digest = Digest(str(request["manifest"]))
        entries = await self.read_manifest(digest)
        pinned = ResolvedRequest(
            str(request["model"]),
            str(_pin_of(request, "model")),
            None,
            _mapping(request.get("params")),
            digest,
            entries,
        )
        return pinned, await self.read(entries)

    async def remember_limit(self, model: str, tokens: int) -> None:
        """Store the limit that a refusal revealed in the model's config, if it is a smaller one."""
        # The runtime learned it, not the sender, who may not be allowed to configure the model.
        programs = replace(self.programs, by=Principal("system", "runtime"))
        program = await programs.find(model)
        if program is None:
            return
        known = [program.config.get(name) for name in ("context_tokens", LEARNED)]
        if all(not isinstance(one, int) or tokens < one for one in known):
            # Another worker that learned the same meanwhile is no error.
            with suppress(Conflict):
                await programs.configure(program.name, {LEARNED: tokens})

    async def find_provider(
        self, started: Mapping[str, Json], request: Mapping[str, Json]
    ) -> Program | None:
        """Return the current version of the provider that a run used.

        Raises:
            ProviderNotConfigured: It no longer runs that model.
        """
        address = _pin_of(request, "provider")
        if address is None:
            return None
        programs = replace(self.programs, by=reader_of(started))
        model = await programs.get(str(_pin_of(request, "model")))
        return await check_provider(programs, model, str(address))

    async def context_of(
        self,
        started: Mapping[str, Json],
        request: Mapping[str, Json],
        environment_for: Callable[[str], Awaitable[Mapping[str, str]]],
    ) -> ExecutionContext:
        """Return the context of a run's tools, with the permissions that its request pinned.

        ``environment_for`` returns the variables that an agent may get credentials from.

        Raises:
            NotFound: An object is gone.
        """
        entries = await self.read_manifest(Digest(str(request["manifest"])))
        (granted,) = [one.object for one in entries.entries if one.kind == "permissions"]
        rights = Permissions.from_json(orjson.loads(await self._get(granted)))
        environment: Mapping[str, str] = {}
        agent = agent_in(request)
        if agent is not None and any(one.startswith("credential:") for one in rights.allow):
            environment = await environment_for(agent)
        return ExecutionContext(chain_of(started, rights), environment=environment)

    async def list_programs(
        self, request: Mapping[str, Json]
    ) -> tuple[tuple[ToolSpec, ...], dict[str, Digest]]:
        """Return the run's tools that are programs, and the versions of all programs it pinned."""
        if "manifest" not in request:
            return (), {}
        entries = await self.read_manifest(Digest(str(request["manifest"])))
        tools = parts_of(entries, await self.read(entries)).tools
        versions = {one.name: one.object for one in entries.entries if one.kind == "program"}
        return tuple(one for one in tools if one.program is not None), versions

    async def read_manifest(self, digest: Digest) -> Manifest:
        """Return a manifest.

        Raises:
            NotFound: There is none.
        """
        return Manifest.from_json(orjson.loads(await self._get(digest)))

    async def read(self, manifest: Manifest) -> dict[Digest, bytes]:
        """Return the objects of a manifest that precede the thread in a prompt.

        Raises:
            NotFound: One of them is gone.
        """
        digests = [e.object for e in manifest.entries if e.kind not in ("program", "params")]
        return {digest: await self._get(digest) for digest in digests}

    async def _resolve(
        self, session: SessionId | None, parent: TurnId | None, started: Mapping[str, Json]
    ) -> tuple[Registry, Program | None, ThreadContext, Program | None, Choice]:
        """Return the programs as the sender sees them, and who replies: session, persona, agent."""
        options = _mapping(started.get("options"))
        programs = await self._gather(session, started, options)
        home = None if session is None else await programs.store.find(session, by=str(programs.by))
        thread = await self.threads.find_settings(session, parent)
        persona = None if thread.persona is None else Persona.from_json(thread.persona)
        agent = await _find_agent(programs, options)
        if agent is not None and not thread.is_chosen:
            persona = _persona_in(agent)
        situation = options.get("situation")
        choice = await choose_for(
            programs,
            turn={**_mapping(options.get("params")), "model": options.get("model")},
            session=home,
            persona=None if persona is None else persona.model.to_json(),
            agent=agent,
            situation=None if situation is None else str(situation),
        )
        return programs, home, ThreadContext(persona, thread.prompt), agent, choice

    async def _gather(
        self, session: SessionId | None, started: Mapping[str, Json], options: Mapping[str, Json]
    ) -> Registry:
        """Return the registry with the programs that a turn is likely to need already read."""
        named = [name_in(str(options[one])) for one in ("agent", "model") if options.get(one)]
        names = [*named, *(() if session is None else (session,))]
        store, by = self.programs.store, reader_of(started)
        reachable = await store.list_reachable(names, _LEADING, by=str(by))
        known = {key: one for one in reachable for key in (one.id, one.name)}
        at_hand = cast("ProgramStore", PreloadedPrograms(store, known, frozenset(names)))
        return replace(self.programs, store=at_hand, by=by)

    async def _list_prompts(
        self,
        started: Mapping[str, Json],
        home: Program | None,
        inherited: Digest | None,
        agent: Program | None,
    ) -> list[tuple[str, bytes]]:
        """Return the instructions of agent, session and message, by name, in this order.

        A session without instructions of its own has those of the thread it continues.
        """
        prompts: list[tuple[str, bytes]] = []
        if agent is not None and (told := agent.version.config.get("system_prompt")):
            prompts.append((agent.address, str(told).encode()))
        own = None if home is None else home.version.config.get("system_prompt")
        if isinstance(own, str):
            prompts.append((SESSION_PROMPT, own.encode()))
        elif inherited is not None:
            prompts.append((SESSION_PROMPT, await self._get(inherited)))
        if (given := options_of(started).get("prompt")) is not None:
            prompts.append((MESSAGE_PROMPT, str(given).encode()))
        return [(name, text) for name, text in prompts if text or name == MESSAGE_PROMPT]

    async def _pin(
        self,
        choice: Choice,
        persona: Persona | None,
        rights: Permissions,
        agent: Program | None,
        tools: Sequence[ToolSpec],
        called: Sequence[Program],
        prompts: Sequence[tuple[str, bytes]],
    ) -> Manifest:
        entries: list[ManifestEntry] = []

        async def add(kind: EntryKind, name: str, data: bytes) -> None:
            entries.append(ManifestEntry(kind, name, await self._put(data)))

        if persona is None:
            await add("toolset", TOOLSETS["full"].name, _FULL_TOOLSET)
        else:
            toolset = persona.get_toolset()
            await add("persona", persona.agent, persona.body)
            await add("toolset", toolset.name, canonical(toolset.to_json()))
        granted = _ALL_TOOLS if rights is ALL_BUT_CREDENTIALS else canonical(rights.to_json())
        await add("permissions", "granted", granted)
        for name, text in prompts:
            await add("prompt", name, text)
        for spec in tools:
            await add("tool", spec.name, canonical(spec.to_json()))
        run = {spec.program for spec in tools}
        programs = [
            program for program in (agent, choice.model, choice.provider) if program is not None
        ]
        programs += [program for program in called if program.address in run]
        entries += [
            ManifestEntry("program", program.address, program.version.digest)
            for program in programs
        ]
        values: dict[str, Json] = {
            # The source of a value is recorded without an address: a session's address would give
            # every fork a manifest of its own.
            name: {"value": resolved.value, "from": resolved.level}
            for name, resolved in choice.values.items()
        }
        params: dict[str, Json] = {"turntree": PARAMS_RECIPE, "values": values}
        await add("params", choice.model.address, canonical(params))
        return Manifest(tuple(entries))

    async def _put(self, data: bytes) -> Digest:
        digest = digest_bytes(data)
        if digest not in self._objects:
            await self.ledger.put_object(data)
            self._remember(digest, data)
        return digest

    async def _get(self, digest: Digest) -> bytes:
        data = self._objects.get(digest)
        if data is None:
            data = await self.ledger.get_object(digest)
            self._remember(digest, data)
        return data

    def _remember(self, digest: Digest, data: bytes) -> None:
        while len(self._objects) >= OBJECTS_MAX:
            del self._objects[next(iter(self._objects))]
        self._objects[digest] = data


def offered(
    toolsets: Iterable[Toolset],
    agent: Program | None,
    rights: Permissions,
    called: Mapping[str, Program],
    always: Sequence[ToolSpec] = (),
    bench: Sequence[ToolSpec] = (),
) -> tuple[list[ToolSpec], list[str]]:
    """Return the tools offered to a model, by name, and the listed names that do not exist.

    An agent that lists tools or functions gets only those, as far as the run's permissions go. If
    a listed tool is a program, it replaces a function of the same name. A model without an agent
    and without tools gets none: not every model can call one.

    Raises:
        InvalidOperation: Two tools have the same name, or a program's name cannot be a tool's.
    """
    specs: dict[str, ToolSpec] = {}
    for spec in (*(one for toolset in toolsets for one in toolset.specs), *bench):
        if spec.name in specs:
            raise InvalidOperation(f"two tools are named {spec.name}")
        specs[spec.name] = spec
    listed = None if agent is None else _listed(agent)
    functions = None if agent is None else agent.version.config.get("functions")
    served: list[ToolSpec] = []
    for name, one in called.items():
        if one.kind == "connector":
            served += connector_specs(one)
            continue
        if isinstance(functions, list) and one.name in functions:
            raise InvalidOperation(f"{one.address} is listed both as a tool and as a function")
        specs[name] = spec_of(one)
    offered_specs = [
        spec
        for name, spec in sorted(specs.items())
        if listed is None or any(names_tool(one, name) for one in listed)
    ]
    offered_specs += served
    names = [spec.name for spec in offered_specs]
    if (twice := next((name for name in names if names.count(name) > 1), None)) is not None:
        raise InvalidOperation(f"two tools are named {twice}")
    if agent is not None or offered_specs:
        offered_specs += always
    offered_specs = [spec for spec in offered_specs if rights.permits(right("tool", spec.name))]
    known = {*specs, *(spec.name for spec in always), *called}
    lacking = [one for one in listed or () if not any(names_tool(one, name) for name in known)]
    return offered_specs, lacking


def _among(specs: Iterable[ToolSpec], listed: Iterable[str]) -> list[ToolSpec]:
    names = [*listed]
    return [spec for spec in specs if any(names_tool(one, spec.name) for one in names)]


def names_tool(listed: str, tool: str) -> bool:
    """Return whether a listed name, or a prefix followed by a star, is that of a tool."""
    return tool.startswith(listed[:-1]) if listed.endswith("*") else listed == tool


def _listed(agent: Program) -> list[str] | None:
    tools, functions = agent.version.config.get("tools"), agent.version.config.get("functions")
    if not isinstance(tools, list) and not isinstance(functions, list):
        return None
    names = [name_in(str(item)) for item in tools] if isinstance(tools, list) else []
    return names + ([str(item) for item in functions] if isinstance(functions, list) else [])


async def _list_programs(programs: Registry, agent: Program) -> dict[str, Program]:
    """Return the programs among an agent's tools that its owner may invoke, as they are listed."""
    config = agent.version.config
    named = [config.get("tools"), config.get("connectors")]
    listed: dict[str, Program] = {}
    for name in [name_in(str(one)) for given in named if isinstance(given, list) for one in given]:
        program = await programs.store.find(name, by=str(programs.by))
        if program is None or not await programs.allows(program, agent.owner, "invoke"):
            continue
        if program.kind == "session":
            # Its program is named by its id.
            session = await programs.sessions.get(SessionId(program.id))
            program = replace(program, name=session.label)
        listed[name] = program
    return listed


async def _find_agent(programs: Registry, options: Mapping[str, Json]) -> Program | None:
    """Return the agent that answers, which the ledger wrote into the message's options.

    Raises:
        PermissionDenied: The sender may no longer invoke it.
    """
    if (name := options.get("agent")) is None:
        return None
    program = await programs.get(str(name))
    # Checked again: access may have been revoked while the message waited.
    if not await programs.allows(program, str(programs.by), "invoke"):
        raise PermissionDenied(f"{programs.by} may not invoke {program.address}")
    return program


def _persona_in(agent: Program) -> Persona:
    return persona_of(agent.name, agent.version.number, agent.version.config)


def agent_in(request: Mapping[str, Json]) -> str | None:
    """Return the address of the agent that answers, as a run's first request pinned it."""
    address = _pin_of(request, "agent")
    return None if address is None else str(address)


def _pin_of(request: Mapping[str, Json], name: str) -> Json:
    return _mapping(_mapping(request.get("versions")).get(name)).get("address")


def _mapping(value: Json) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}


async def _find_window(choice: Choice) -> WindowSize:
    provider_type = None if choice.provider is None else choice.provider.config.get("provider_type")
    # The list of windows is loaded from a file, once.
    return await anyio.to_thread.run_sync(
        find_window_size,
        choice.model.config,
        str(choice.values["model_id"].value),
        None if provider_type is None else str(provider_type),
    )
