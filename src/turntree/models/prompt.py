"""The prompt: a model's input, independent of the vendor.

It is a pure function of a thread, a manifest and a budget. Its beginning depends only on what two
forks share, so that the provider's cache serves both: instructions and tools in the order of the
manifest, then the thread, root first, then the query, then the reply so far. Details of one session
(paths, ids, times) enter it only through the text of a query.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from turntree.auth.permissions import EFFECTS, Effect, read_effects
from turntree.auth.persona import Persona
from turntree.core.canonical import Json, canonical, digest_bytes
from turntree.core.errors import InvalidOperation
from turntree.core.ids import Digest
from turntree.core.manifest import MESSAGE_PROMPT, SESSION_PROMPT, Manifest
from turntree.core.message import ErasedMessage, Message, Text, line_of, to_json
from turntree.core.thread import ThreadTurn
from turntree.core.value import value
from turntree.models.context_window import ContextWindow, DividedThread, divide
from turntree.models.messages import (
    COVERED_LINE_TOKENS,
    COVERED_TEXT,
    LEFT_OUT_TEXT,
    TITLES_TEXT,
    Excerpts,
    PromptShares,
    StepView,
    list_large,
    shorten,
    show_exchange,
    show_folded_exchange,
    show_folded_turn,
    show_turn,
    show_whole_turn,
    title_line,
    told,
)
from turntree.models.token_estimate import estimate_messages, estimate_text, estimate_tool

RECIPE: Final = "prompt/2"
"""How a prompt is made of a thread. Another way to fold, cut or order it needs another number:
digests are compared only within one recipe."""
TOOL_RECIPE: Final = "tool/1"
TOOL_TIMEOUT_S = 60.0
TOOL_TIMEOUT_MAX_S = 24 * 60 * 60.0


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
    effects: tuple[Effect, ...] | None = None
    """What its calls may do, as it declares; None if it declares nothing."""

    @property
    def worst_effects(self) -> tuple[Effect, ...]:
        """What its calls have to be expected to do: everything, unless it declares less."""
        return EFFECTS if self.effects is None else self.effects

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
        document |= {name: given for name, given in optional.items() if given}
        # A tool that declares nothing has the document that it always had, and its digest.
        return document if self.effects is None else {**document, "effects": [*self.effects]}

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
                declared = document.get("effects")
                effects = None if declared is None else read_effects(declared)
                return cls(
                    name, description, schema, repeatable, timeout_s, program, read_only, effects
                )
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
    """Number of the thread's turns that are not shown, not even by their titles."""
    estimated_tokens: int = 0
    meta: Mapping[str, Json] = field(default_factory=dict[str, Json])
    thread_messages: int = 0
    """Number of messages that belong to the thread; the rest belong to the turn itself."""
    thread_turns: int = 0
    """Number of turns those messages show, without a summary."""
    folded_turns: int = 0
    """How many of them are folded to their query and last answer."""
    titled_turns: int = 0
    """How many of them are shown as their titles."""

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
            "folded_turns": self.folded_turns,
            "titled_turns": self.titled_turns,
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
    is_replaced = any(
        (one.kind, one.name) == ("prompt", MESSAGE_PROMPT) for one in manifest.entries
    )
    for entry in manifest.entries:
        if is_replaced and (entry.kind, entry.name) == ("prompt", SESSION_PROMPT):
            continue
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
    """Return the instructions that describe an agent to itself; empty if it has no soul."""
    identity = persona.identity
    return f"You are {identity.name}.\n\n{identity.soul}" if identity.soul.strip() else ""


@value
class PromptPlan:
    """How the room of a prompt is divided; the same for all calls of a turn."""

    parts: PromptPrefix
    view: ContextWindow
    query: Sequence[Message | ErasedMessage]
    shares: PromptShares
    thread: DividedThread
    query_tokens: int
    """Room of the query; a longer one is shown as its beginning and its end."""
    reply_tokens: int
    """Room of the reply; when it is full, older steps are folded."""
    _steps: list[StepView] = field(default_factory=list[StepView], repr=False, compare=False)
    """The steps of the reply as the latest call showed them."""

    @property
    def large_objects(self) -> list[Digest]:
        """The objects whose excerpts are needed to show the thread and the query."""
        turns = (*self.thread.folded, *self.thread.whole)
        thread = [digest for entry in turns for digest in list_large(entry.turn.messages)]
        return list(dict.fromkeys((*thread, *list_large(self.query))))

    def show_thread(self, excerpts: Excerpts) -> list[Message]:
        """Return the messages that show the thread."""
        thread: list[Message] = []
        if (summary := self.view.summary) is not None:
            thread += _show_summary(summary, self.shares)
            if _is_made_here(summary):
                thread.append(told(COVERED_TEXT.format(last=_last_covered(self.view, summary))))
        # After the summary and before the turns, where the gap is. It changes only when a border
        # moves, so the cached prefix stays the same meanwhile.
        lines = [LEFT_OUT_TEXT.format(count=self.thread.left_out)] if self.thread.left_out else []
        if self.thread.titled:
            lines.append(TITLES_TEXT)
            lines += [title_line(entry.turn, entry.depth) for entry in self.thread.titled]
        if lines:
            thread.append(told("\n".join(lines)))
        for entry in self.thread.folded:
            thread += show_folded_turn(entry.turn, entry.depth, excerpts)
        for entry in self.thread.whole:
            thread += show_whole_turn(entry.turn, entry.depth, self.shares, excerpts)
        return thread

    def assemble(
        self,
        thread: Sequence[Message],
        reply: Sequence[Message | ErasedMessage],
        excerpts: Excerpts,
    ) -> Prompt:
        """Return the prompt of a call, given the messages of the thread and the reply so far."""
        own = show_folded_exchange(
            self.query, reply, self.view.next_depth, self.shares, excerpts,
            query_tokens=self.query_tokens, reply_tokens=self.reply_tokens, known=self._steps,
        )  # fmt: skip
        return Prompt(
            self.parts.system,
            (*thread, *own.messages),
            self.parts.tools,
            self.thread.left_out,
            self.parts.cost + _summary_cost(self.view, self.shares) + self.thread.cost + own.cost,
            thread_messages=len(thread),
            thread_turns=len(self.thread.shown),
            folded_turns=len(self.thread.folded),
            titled_turns=len(self.thread.titled),
        )


def plan_prompt(
    view: ContextWindow,
    parts: PromptPrefix,
    query: Sequence[Message | ErasedMessage],
    *,
    budget_tokens: int,
) -> PromptPlan:
    """Return how a budget is divided between the thread, the query and the reply.

    The query's share is an eighth of the room, or a quarter if it is longer: so most forks are
    shown alike, regardless of what is asked in them. What a short thread leaves over goes to the
    query and the reply.
    """
    shares = shares_of(parts, budget_tokens)
    room = max(0, shares.room - _summary_cost(view, shares))
    asked = estimate_messages(show_exchange(query, ()))
    share = shares.short_query if asked <= shares.short_query else shares.query
    thread = divide(view, shares, max(0, room - shares.reply - share))
    query_tokens, reply_tokens = shares.query, shares.reply
    if not thread.left_out and len(thread.whole) == len(view.turns):
        query_tokens = max(query_tokens, room - shares.reply - thread.cost)
        reply_tokens = max(reply_tokens, room - min(asked, query_tokens) - thread.cost)
    return PromptPlan(parts, view, tuple(query), shares, thread, query_tokens, reply_tokens)


def shares_of(parts: PromptPrefix, budget_tokens: int) -> PromptShares:
    """Return the shares of what instructions and tools leave of a budget."""
    return PromptShares(max(0, budget_tokens - parts.cost))


def assemble(
    view: ContextWindow,
    parts: PromptPrefix,
    query: Sequence[Message | ErasedMessage],
    reply: Sequence[Message | ErasedMessage] = (),
    *,
    budget_tokens: int,
    excerpts: Excerpts | None = None,
) -> Prompt:
    """Return the prompt of a model call."""
    plan = plan_prompt(view, parts, query, budget_tokens=budget_tokens)
    known: Excerpts = {} if excerpts is None else excerpts
    return plan.assemble(plan.show_thread(known), reply, known)


def _summary_cost(view: ContextWindow, shares: PromptShares) -> int:
    if view.summary is None:
        return 0
    cost = min(shares.query, estimate_messages(show_turn(view.summary.turn)))
    return cost + COVERED_LINE_TOKENS if _is_made_here(view.summary) else cost


def _is_made_here(summary: ThreadTurn) -> bool:
    """Return whether a run made the summary; a tool that we import from told its own model less."""
    return summary.turn.header.manifest is not None


def _last_covered(view: ContextWindow, summary: ThreadTurn) -> int:
    """Return the depth of the last turn that a summary covers."""
    return min(view.first, summary.depth) - 1


def _show_summary(summary: ThreadTurn, shares: PromptShares) -> list[Message]:
    return [
        Message(
            message.role,
            tuple(
                Text(shorten(part.text, shares.query, str(summary.depth)))
                if isinstance(part, Text)
                else part
                for part in message.parts
            ),
        )
        for message in show_turn(summary.turn)
    ]
