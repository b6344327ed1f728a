"""The prompt: a model's input, independent of the vendor.

It is a pure function of a thread, a manifest and a budget. Its beginning depends only on what two
forks share, so that the provider's cache serves both: instructions and tools in the order of the
manifest, then the thread, root first, then the query, then the reply so far. Details of one session
(paths, ids, times) enter it only through the text of a query.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from turntree.auth.persona import Persona
from turntree.core.canonical import Json, canonical, digest_bytes
from turntree.core.errors import InvalidOperation
from turntree.core.ids import Digest
from turntree.core.manifest import Manifest
from turntree.core.message import ErasedMessage, Message, line_of, to_json
from turntree.core.value import value
from turntree.models.context_window import ContextWindow, count_left_out, cut
from turntree.models.messages import LEFT_OUT_TEXT, show_exchange, show_turn, told
from turntree.models.token_estimate import estimate_messages, estimate_text, estimate_tool

RECIPE: Final = "prompt/1"
TOOL_RECIPE: Final = "tool/1"
TOOL_TIMEOUT_S = 60.0
TOOL_TIMEOUT_MAX_S = 24 * 60 * 60.0
OWN_SHARE: Final = 4
"""A quarter of the budget is reserved for the turn itself, so that its query moves no cut."""


@value
class ToolSpec:
    """A tool as a model sees it, and how its calls are handled."""

    name: str
    description: str
    parameters: Mapping[str, Json]
    """A JSON Schema of type object."""
    is_repeatable: bool = False
    """Whether an interrupted call may be repeated, because the tool is idempotent."""
    timeout_s: float = TOOL_TIMEOUT_S
    program: str | None = None
    """The address of the program to run; None for a Python function of the worker."""
    is_read_only: bool = False
    """Whether its calls never change files, so that no snapshot is taken for them."""

    def to_json(self) -> dict[str, Any]:
        """Return the document whose canonical bytes are the tool's object in a manifest."""
        document = {
            "turntree": TOOL_RECIPE,
            "name": self.name,
            "description": self.description,
            "parameters": dict(self.parameters),
            "is_repeatable": self.is_repeatable,
            "timeout_s": self.timeout_s,
        }
        optional = {"program": self.program, "is_read_only": self.is_read_only or None}
        return {**document, **{name: given for name, given in optional.items() if given}}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "ToolSpec":
        """Return the tool that a document describes.

        Raises:
            InvalidOperation: It is not a tool's document.
        """
        match document:
            case {"name": str(name), "description": str(description), "parameters": Mapping()}:
                schema: Mapping[str, Json] = document["parameters"]
                repeatable = bool(document.get("is_repeatable"))
                timeout_s = float(document.get("timeout_s", TOOL_TIMEOUT_S))
                program: str | None = document.get("program")
                read_only = bool(document.get("is_read_only"))
                return cls(name, description, schema, repeatable, timeout_s, program, read_only)
            case _:
                raise InvalidOperation(
                    f"{dict(document)!r} is not a tool: name, description and parameters"
                )


@value
class PromptPrefix:
    """What precedes the thread in a prompt: instructions and tools."""

    system: tuple[str, ...] = ()
    tools: tuple[ToolSpec, ...] = ()

    @property
    def cost(self) -> int:
        """Estimated tokens."""
        tool_tokens = sum(
            estimate_tool(tool.name, tool.description, tool.parameters) for tool in self.tools
        )
        return tool_tokens + sum(map(estimate_text, self.system))


@value
class Prompt:
    """Instructions, tools and messages, in that order."""

    system: tuple[str, ...]
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    left_out: int = 0
    """Number of the thread's turns that did not fit into the budget."""
    estimated_tokens: int = 0
    meta: Mapping[str, Json] = field(default_factory=dict[str, Json])
    thread_messages: int = 0
    """Number of messages that belong to the thread; the rest belong to the turn itself."""
    thread_turns: int = 0
    """Number of turns those messages show, without a summary."""

    @property
    def lines(self) -> list[bytes]:
        """The prompt as canonical documents: the prefix first, then each message.

        Two prompts whose first lines are equal begin with the same bytes at any provider.
        """
        before: dict[str, Any] = {
            "turntree": RECIPE,
            "system": list(self.system),
            "tools": [
                {"name": t.name, "description": t.description, "parameters": dict(t.parameters)}
                for t in self.tools
            ],
        }
        return [canonical(before), *map(line_of, self.messages)]

    @property
    def prefix(self) -> bytes:
        """The bytes that every fork from the same turn shares."""
        return b"\n".join(self.lines[: 1 + self.thread_messages])

    @property
    def digest(self) -> Digest:
        """The digest that a request records, to prove what the model saw."""
        return digest_bytes(b"\n".join(self.lines))

    def to_json(self) -> dict[str, Any]:
        """Return the prompt as a document to inspect."""
        return {
            **json.loads(self.lines[0]),
            "messages": [to_json(message) for message in self.messages],
            "thread_messages": self.thread_messages,
            "thread_turns": self.thread_turns,
            "left_out": self.left_out,
            "estimated_tokens": self.estimated_tokens,
            "digest": self.digest,
        }


def parts_of(manifest: Manifest, objects: Mapping[Digest, bytes]) -> PromptPrefix:
    """Return the instructions and tools of a manifest, in its order.

    Raises:
        InvalidOperation: An object is missing, or is not what its entry says.
    """
    system: list[str] = []
    tools: list[ToolSpec] = []
    for entry in manifest.entries:
        # Permissions and parameters are recorded in the manifest too. They are not text for the
        # model.
        if entry.kind not in ("persona", "prompt", "rules", "tool"):
            continue
        if entry.object not in objects:
            raise InvalidOperation(
                f"the {entry.kind} {entry.name} is object {entry.object}, which is missing"
            )
        data = objects[entry.object]
        match entry.kind:
            case "persona":
                system.append(persona_text(Persona.from_json(json.loads(data))))
            case "tool":
                tools.append(ToolSpec.from_json(json.loads(data)))
            case _:
                system.append(data.decode())
    return PromptPrefix(tuple(text for text in system if text.strip()), tuple(tools))


def persona_text(persona: Persona) -> str:
    """Return the instructions that describe an agent to itself."""
    introduction = f"You are {persona.identity.name}."
    return (
        f"{introduction}\n\n{persona.identity.soul}"
        if persona.identity.soul.strip()
        else introduction
    )


def thread_room(
    parts: PromptPrefix, view: ContextWindow, own_tokens: int, budget_tokens: int
) -> int:
    """Return the tokens of a budget that are left for the turns of a thread.

    The turn's own share is rounded up to quarters of the budget: most turns need one quarter,
    whatever the query, and so most forks are cut alike.
    """
    share = max(1, budget_tokens // OWN_SHARE)
    own = share * max(1, math.ceil(own_tokens / share))
    return max(0, budget_tokens - own - parts.cost - view.summary_cost)


def assemble(
    view: ContextWindow,
    parts: PromptPrefix,
    query: Sequence[Message | ErasedMessage],
    reply: Sequence[Message | ErasedMessage] = (),
    *,
    budget_tokens: int,
) -> Prompt:
    """Return the prompt of a model call.

    If even the turn itself exceeds the budget, the prompt is sent as it is and the provider refuses
    it.
    """
    own = show_exchange(query, reply)
    own_tokens = estimate_messages(own)
    shown = cut(view, thread_room(parts, view, own_tokens, budget_tokens))
    left_out = count_left_out(view, shown)
    thread: list[Message] = []
    if view.summary is not None:
        thread += show_turn(view.summary.turn)
    # After the summary and before the turns, where the gap is. Its number changes only when the cut
    # moves, so the cached prefix stays the same meanwhile.
    if left_out:
        thread.append(told(LEFT_OUT_TEXT.format(count=left_out)))
    for entry in shown:
        thread += show_turn(entry.turn)
    turns_tokens = sum(view.costs[len(view.costs) - len(shown) :])
    return Prompt(
        parts.system,
        (*thread, *own),
        parts.tools,
        left_out,
        parts.cost + view.summary_cost + turns_tokens + own_tokens,
        thread_messages=len(thread),
        thread_turns=len(shown),
    )
