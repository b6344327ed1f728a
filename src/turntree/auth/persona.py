"""Personas: who an agent is and what it may do, versioned and hashed.

A persona holds an identity, permissions and an agent's default model. It owns no thread: a turn
records the version it ran under, by digest. The role of an agent decides its default toolset and
whether it may call other agents, and nothing else; toolsets are named lists with versions of their
own. This module must never know the registry that stores the versions.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, Literal, TypeAlias

from turntree.auth.permissions import (
    ALL_BUT_CREDENTIALS,
    MANAGING,
    Pattern,
    Permissions,
    actions,
    credentials,
    pattern,
)
from turntree.core.canonical import Json, canonical, digest_bytes
from turntree.core.errors import InvalidOperation
from turntree.core.ids import Digest
from turntree.core.turn import AGENT_ROLES, AgentRole
from turntree.core.value import value

RECIPE: Final = "persona/1"
SPAWN: Final = "spawn"
"""The action of spawning a subagent."""

Visibility = Literal["public", "private"]

Document: TypeAlias = Mapping[str, Any]


@value
class Identity:
    """Who an agent is to those it talks to."""

    name: str
    soul: str = ""
    """Its system prompt."""
    emoji: str | None = None


@value
class ToolsetConfig:
    """A named list of tools; changing the list makes another version."""

    name: str
    version: int
    tools: tuple[Pattern, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the document whose canonical bytes are the toolset's object."""
        names = [one.partition(":")[2] for one in self.tools]
        return {"turntree": "toolset/1", "name": self.name, "version": self.version, "tools": names}

    @classmethod
    def from_json(cls, document: Document) -> "ToolsetConfig":
        """Return the toolset of a document.

        Raises:
            InvalidOperation: It has no name, no version or no list.
        """
        match document:
            case {"name": str(name), "version": int(version), "tools": [*names]} if version >= 1:
                return toolset(name, names, version)
            case _:
                raise InvalidOperation(
                    f"{dict(document)!r} is not a toolset: it needs name, version and tools"
                )


def toolset(name: str, names: Iterable[str], version: int = 1) -> ToolsetConfig:
    """Return a toolset of tools by name; a prefix followed by ``*`` includes many."""
    return ToolsetConfig(
        name, version, Permissions(tuple(pattern("tool", each) for each in names)).allow
    )


@value
class RoleRules:
    """What a role decides."""

    toolset: str
    """The default toolset of an agent."""
    may_spawn: bool
    """Whether spawning needs no permission of its own; the persona's deny still wins."""


ROLES: Final[Mapping[AgentRole, RoleRules]] = {
    "manager": RoleRules("manager", may_spawn=True),
    "worker": RoleRules("worker", may_spawn=False),
    "unified": RoleRules("full", may_spawn=True),
}

TOOLSETS: Final[Mapping[str, ToolsetConfig]] = {
    one.name: one
    for one in (
        # A manager delegates work and reads the results; it changes nothing itself.
        toolset(
            "manager",
            (
                "spawn",
                "message",
                "read*",
                "search*",
                "task*",
                "ledger.*",
                "fs.read",
                "fs.list",
                "fs.grep",
            ),
            version=2,
        ),
        toolset(
            "worker",
            (
                "exec",
                "read*",
                "write*",
                "edit*",
                "search*",
                "report",
                "ledger.recall",
                "ledger.read",
                "ledger.search",
                "fs.*",
                "shell.*",
            ),
            version=2,
        ),
        toolset("full", ("*",)),
    )
}
"""The toolsets of every persona, unless it overrides them by name."""


@value
class ModelDefaults:
    """The model to ask when a turn, a session and an agent name none."""

    model: str | None = None
    thinking: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the members that are set."""
        named = {
            "model": self.model,
            "thinking": self.thinking,
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
        }
        return {name: value for name, value in named.items() if value is not None}


@value
class Persona:
    """One version of an agent's identity and permissions."""

    agent: str
    """The name of its agent."""
    version: int
    identity: Identity
    rights: Permissions
    sandbox: str | None = None
    """The sandbox profile that code and commands run in; without one they do not run."""
    model: ModelDefaults = field(default_factory=ModelDefaults)
    role: AgentRole = "unified"
    toolset: str | None = None
    toolsets: tuple[ToolsetConfig, ...] = ()
    visibility: Visibility = "private"
    scopes: frozenset[str] = frozenset()
    """The confidential scopes it is cleared for; a public persona has none."""

    def __post_init__(self) -> None:
        """Refuse a contradictory persona.

        Raises:
            InvalidOperation: It is public with confidential scopes, has a version below 1, or names
                a toolset that does not exist.
        """
        if self.version < 1:
            raise InvalidOperation(f"the version of a persona is at least 1, not {self.version}")
        if self.visibility == "public" and self.scopes:
            names = ", ".join(sorted(self.scopes))
            raise InvalidOperation(
                f"{self.agent} is public and may not hold what is confidential: {names}"
            )
        if self.toolset is not None:
            self.get_toolset()

    @property
    def main_session(self) -> str:
        """The label of the session that receives messages to this persona."""
        return f"{self.agent}:main"

    @property
    def rules(self) -> RoleRules:
        """What its role decides."""
        return ROLES[self.role]

    @property
    def digest(self) -> Digest:
        """The digest of this version, which turns record."""
        return digest_bytes(self.body)

    @property
    def body(self) -> bytes:
        """The canonical bytes."""
        return canonical(self.to_json())

    def get_toolset(self) -> ToolsetConfig:
        """Return a toolset by name: its own, or the one every persona has.

        Raises:
            InvalidOperation: There is none of that name.
        """
        wanted = self.toolset or self.rules.toolset
        own = {one.name: one for one in self.toolsets}
        found = own.get(wanted) or TOOLSETS.get(wanted)
        if found is None:
            known = ", ".join(sorted({*own, *TOOLSETS}))
            raise InvalidOperation(f"there is no toolset {wanted!r}; there are {known}")
        return found

    @property
    def permitted(self) -> Permissions:
        """What it may do and delegate: its permissions, and those of its role."""
        spawning = actions(SPAWN) if self.rules.may_spawn else ()
        return Permissions((*self.rights.allow, *spawning), self.rights.deny)

    @property
    def granted(self) -> Permissions:
        """What it may do itself: of the tools, only those it is given.

        A manager delegates to agents with tools that it lacks, so a toolset narrows what its agent
        does and not what it may delegate.
        """
        permitted = self.permitted
        tools = permitted.of_kind("tool").narrow(allow=self.get_toolset().tools)
        others = (one for one in permitted.allow if not one.startswith("tool:"))
        return Permissions((*tools.allow, *others), permitted.deny)

    def to_json(self) -> dict[str, Any]:
        """Return the document whose digest is the version's."""
        document: dict[str, Any] = {
            "turntree": RECIPE,
            "agent": self.agent,
            "version": self.version,
            "identity": _identity_document(self.identity),
            "permissions": self.rights.to_json(),
            "sandbox": self.sandbox,
            "model": self.model.to_json() or None,
            "role": self.role,
            "toolset": self.toolset,
            "toolsets": [one.to_json() for one in self.toolsets] or None,
            "visibility": self.visibility,
            "scopes": sorted(self.scopes) or None,
        }
        return {name: value for name, value in document.items() if value is not None}

    @classmethod
    def from_json(cls, document: Document) -> "Persona":
        """Return the persona of a document.

        Raises:
            InvalidOperation: The document is malformed; the message names what is wrong.
        """
        get = document.get
        role: AgentRole = get("role", "unified")
        visibility: Visibility = get("visibility", "private")
        if role not in AGENT_ROLES or visibility not in ("public", "private"):
            raise InvalidOperation(
                f"{role!r} and {visibility!r} are not a role and a visibility of an agent"
            )
        try:
            return cls(
                agent=document["agent"],
                version=document["version"],
                identity=Identity(**document["identity"]),
                rights=Permissions.from_json(get("permissions", {})),
                sandbox=get("sandbox"),
                model=ModelDefaults(**get("model", {})),
                role=role,
                toolset=get("toolset"),
                toolsets=tuple(ToolsetConfig.from_json(one) for one in get("toolsets", ())),
                visibility=visibility,
                scopes=frozenset(get("scopes", ())),
            )
        except (KeyError, TypeError) as error:
            raise InvalidOperation(f"not a persona: {error}") from error


def persona_of(agent: str, version: int, config: Document) -> Persona:
    """Return the persona in an agent's config.

    Without a list of permissions it has every tool and every action, except that it manages neither
    members nor keys, and that a worker calls no agents. It has only those credentials that are
    listed.

    Raises:
        InvalidOperation: The config names a role or a toolset that does not exist.
    """
    get = config.get
    given: Document = get("permissions") or {}
    role: AgentRole = get("role") or "unified"
    allow, deny = given.get("allow"), [*(given.get("deny") or ())]
    if allow is None:
        allow = ALL_BUT_CREDENTIALS.allow
        deny += MANAGING
        # Every action would include this one, and the role would decide nothing.
        deny += [] if role not in ROLES or ROLES[role].may_spawn else actions(SPAWN)
    listed = Permissions.of_patterns(allow, deny)
    return Persona(
        agent,
        version,
        Identity(get("name") or agent, get("soul") or "", get("emoji")),
        Permissions((*listed.allow, *credentials(*(get("credentials") or ()))), listed.deny),
        sandbox=get("sandbox"),
        role=role,
        toolset=get("toolset"),
    )


def read_scopes(personas: Iterable[Document]) -> frozenset[str]:
    """Return the confidential scopes that the personas of a thread were cleared for."""
    found: set[str] = set()
    for document in personas:
        scopes: Sequence[Json] = document.get("scopes", ())
        found |= {str(scope) for scope in scopes}
    return frozenset(found)


def _identity_document(identity: Identity) -> dict[str, Any]:
    document = {"name": identity.name, "soul": identity.soul or None, "emoji": identity.emoji}
    return {name: value for name, value in document.items() if value is not None}
