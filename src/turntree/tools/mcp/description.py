"""What a server says of its tools, and which of them a model is offered. Pure.

A description is pinned by its digest: name, text, schemas and hints. A server that changes one of
them could tell a model to do something else (a rug pull), so such a tool is withheld until a person
has accepted what the server says now. Hints of a server may make the effects of a tool worse and
never better.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, cast

from turntree.auth.permissions import EFFECTS, Effect, read_effects
from turntree.core.canonical import Json, canonical, digest_bytes, tidy
from turntree.core.ids import Digest
from turntree.core.program import Program
from turntree.core.value import value
from turntree.models.prompt import ToolSpec

TOOLS_MAX: Final = 500
DESCRIPTION_BYTES_MAX: Final = 65_536
"""Of one tool with its schemas. What is longer is not offered: every prompt would carry it."""
START_S: Final = 30.0
"""Added to a tool's time limit: the server may have to be started first."""
NAME_CHARS_MAX: Final = 64
TIMEOUT_DEFAULT_S: Final = 60.0
_OTHER_CHARACTER: Final = re.compile(r"[^A-Za-z0-9_-]")
_HINTED: Final[Mapping[tuple[str, bool], tuple[Effect, ...]]] = {
    ("readOnlyHint", False): ("external_write",),
    ("destructiveHint", True): ("external_write", "destructive"),
    ("openWorldHint", True): ("untrusted_output",),
}
ToolState = Literal["accepted", "new", "changed", "gone", "excluded"]


@value
class ToolDescription:
    """A tool as its server describes it."""

    name: str
    description: str
    input_schema: Mapping[str, Json]
    output_schema: Mapping[str, Json] | None = None
    title: str | None = None
    hints: Mapping[str, bool] | None = None

    @property
    def digest(self) -> Digest:
        """The digest of everything that a model or a person is told of the tool."""
        document: dict[str, Json] = {
            "name": self.name,
            "description": self.description,
            "input_schema": dict(self.input_schema),
            "output_schema": None if self.output_schema is None else dict(self.output_schema),
            "title": self.title,
            "hints": None if self.hints is None else dict(self.hints),
        }
        return digest_bytes(canonical(document))

    def to_accepted(self) -> dict[str, Json]:
        """Return the member of a connector's config that accepts it."""
        accepted: dict[str, Json] = {
            "description": self.description,
            "input_schema": dict(self.input_schema),
            "digest": self.digest,
        }
        return accepted | ({"hints": dict(self.hints)} if self.hints else {})


@value
class ListedTool:
    """A tool of a connector, compared with what was accepted."""

    name: str
    """The server's name for it."""
    offered_as: str
    """The name that a model calls it by."""
    state: ToolState
    description: str
    effects: tuple[Effect, ...] | None
    accepted_description: str | None = None


def read_description(tool: Mapping[str, Any]) -> ToolDescription:
    """Return a description from the document of a server."""
    hints = tool.get("annotations")
    given = dict(cast("Mapping[str, Any]", hints)) if isinstance(hints, Mapping) else {}
    output = tool.get("outputSchema")
    return ToolDescription(
        str(tool["name"]),
        str(tool.get("description") or ""),
        _schema(tool.get("inputSchema")),
        _schema(cast("Mapping[str, Any]", output)) if isinstance(output, Mapping) else None,
        None if tool.get("title") is None else str(tool["title"]),
        {name: hint for name, hint in sorted(given.items()) if isinstance(hint, bool)} or None,
    )


def _schema(given: object) -> dict[str, Json]:
    tidied = tidy(cast("Mapping[str, Any]", given)) if isinstance(given, Mapping) else None
    return dict(tidied) if isinstance(tidied, Mapping) else {"type": "object"}


def offered_names(connector: str, names: Iterable[str]) -> dict[str, str]:
    """Return the names under which a model sees a server's tools, each with the server's own.

    Vendors allow few characters, so others become underscores; a name that is too long, or that
    another tool would share, ends in a digest of the server's name.
    """
    prefix = _OTHER_CHARACTER.sub("_", connector)
    taken: dict[str, str] = {}
    for name in sorted(names):
        offered = f"{prefix}.{_OTHER_CHARACTER.sub('_', name)}"
        # Vendors see an underscore for the dot.
        seen = {one.replace(".", "_") for one in taken}
        if len(offered) > NAME_CHARS_MAX or offered.replace(".", "_") in seen:
            mark = hashlib.sha256(name.encode()).hexdigest()[:8]
            offered = f"{offered[: NAME_CHARS_MAX - 9]}_{mark}"
        taken[offered] = name
    return taken


def accepted_of(config: Mapping[str, Json]) -> dict[str, Mapping[str, Any]]:
    """Return the accepted tools of a connector's config, by the server's names."""
    accepted = config.get("accepted")
    listed = config.get("tools")
    allowed = None if not isinstance(listed, list) else set(map(str, listed))
    found = cast("Mapping[str, Any]", accepted if isinstance(accepted, Mapping) else {})
    return {
        name: tool
        for name, tool in found.items()
        if isinstance(tool, Mapping) and (allowed is None or name in allowed)
    }


def changed_of(program: Program) -> dict[str, str]:
    """Return the tools that the server described otherwise when it was last asked."""
    changed = program.details.get("changed")
    return {name: str(one) for name, one in changed.items()} if isinstance(changed, Mapping) else {}


def effects_of(
    config: Mapping[str, Json], name: str, hints: Mapping[str, Any] | None
) -> tuple[Effect, ...] | None:
    """Return what a call may do: what the config declares, and what the server adds to it.

    None stands for undeclared effects, which count as the worst.
    """
    declared = config.get("effects")
    by_tool: Mapping[str, Json] = declared if isinstance(declared, Mapping) else {}
    own = by_tool.get(name, by_tool.get("*"))
    if not isinstance(own, list):
        return None
    added = {
        effect
        for (hint, told), effects in _HINTED.items()
        if (hints or {}).get(hint) is told
        for effect in effects
    }
    return tuple(one for one in EFFECTS if one in {*read_effects(own), *added})


def specs_of(program: Program) -> tuple[ToolSpec, ...]:
    """Return the tools that a model is offered of a connector: those accepted and not withheld."""
    config, changed = program.config, changed_of(program)
    accepted = {
        name: tool
        for name, tool in accepted_of(config).items()
        if changed.get(name, tool["digest"]) == tool["digest"]
    }
    limit = config.get("timeout_s")
    seconds = float(limit) if isinstance(limit, int | float) else TIMEOUT_DEFAULT_S
    repeatable = config.get("repeatable")
    again = set(map(str, repeatable)) if isinstance(repeatable, list) else set[str]()
    names = offered_names(program.name, accepted_of(config))
    return tuple(
        ToolSpec(
            offered,
            str(accepted[name]["description"]),
            accepted[name]["input_schema"],
            is_repeatable=name in again,
            timeout_s=START_S + seconds,
            program=program.address,
            effects=effects_of(config, name, accepted[name].get("hints")),
        )
        for offered, name in names.items()
        if name in accepted
    )


def compare(program: Program, told: Iterable[ToolDescription]) -> list[ListedTool]:
    """Return a server's tools, each with what became of it since it was accepted."""
    config, accepted = program.config, accepted_of(program.config)
    live = {tool.name: tool for tool in told}
    every = {*live, *accepted}
    offered = {name: seen for seen, name in offered_names(program.name, every).items()}
    allowed = config.get("tools")
    found: list[ListedTool] = []
    for name in sorted(every):
        tool, before = live.get(name), accepted.get(name)
        state: ToolState
        if tool is None:
            state = "gone"
        elif isinstance(allowed, list) and name not in allowed:
            state = "excluded"
        elif before is None:
            state = "new"
        else:
            state = "accepted" if before["digest"] == tool.digest else "changed"
        hints = tool.hints if tool is not None else (before or {}).get("hints")
        found.append(
            ListedTool(
                name,
                offered[name],
                state,
                tool.description if tool is not None else str((before or {})["description"]),
                effects_of(config, name, hints),
                None if before is None else str(before["description"]),
            )
        )
    return found
