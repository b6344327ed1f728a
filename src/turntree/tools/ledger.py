"""The two tools that every agent has: search the thread of its turn, and read what a prompt left
out.

No index has the turn in progress, so ``ledger.recall`` reads the thread itself, as far as the
sender of the message may see it, and that turn. An address counts turns along the thread and the
calls of a turn, as in a prompt: ``37`` or ``37/4``.
"""

import math
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final

import anyio.to_thread
import orjson

from turntree.auth.permissions import Effect
from turntree.core.canonical import Json, as_text
from turntree.core.errors import InvalidOperation, NotFound
from turntree.core.ids import Digest, RunId, TurnId
from turntree.core.message import (
    ErasedMessage,
    Message,
    ObjectRef,
    Text,
    ToolResult,
    ToolUse,
    answers_call,
    calls_tool,
)
from turntree.core.value import value
from turntree.ledger.store import Ledger
from turntree.ledger.thread_store import ThreadStore
from turntree.search.passages import PASSAGE_CHARS, find_window
from turntree.search.tokenizer import COMMON
from turntree.tools.functions import FunctionTools, tool
from turntree.tools.toolset import ToolContext

TOOL_SET: Final = "ledger."
READS: Final[tuple[Effect, ...]] = ("reads_private", "untrusted_output")
"""Effects of reading a thread: what tools printed in it is there too."""
HITS_MAX: Final = 5
WORDS_MAX: Final = 32
"""Words of a search that count; a model may send whole pages."""
READ_CHARS: Final = 4_000
PAGE_TURNS: Final = 200
_WORD: Final = re.compile(r"[\w][\w.'’-]*[\w]|[\w]")
_ENDING: Final = re.compile(r"(?:ing|ed|es|s)$")
_ROOT_CHARS_MIN: Final = 4
_ADDRESS: Final = re.compile(r"(\d+)(?:/(\d+))?")

Objects = Mapping[Digest, bytes]
ThreadsOf = Callable[[Mapping[str, Json]], ThreadStore]
"""Returns the threads as the sender of a run's message may see them; takes the data of
``run.started``."""


@value
class ThreadEntry:
    """A text of a thread, and its address."""

    depth: int
    call: int | None
    kind: str
    """``query``, ``answer`` or the name of the tool."""
    text: str

    @property
    def address(self) -> str:
        """The address that ``ledger.read`` takes."""
        return str(self.depth) if self.call is None else f"{self.depth}/{self.call}"


def ledger_tools(ledger: Ledger, threads_of: ThreadsOf) -> FunctionTools:
    """Return the toolset of a worker."""
    reader = ConversationReader(ledger, threads_of)

    @tool(name="ledger.recall", is_repeatable=True, is_read_only=True, effects=READS)
    async def recall(
        words: Annotated[str, "Words that what you look for contains."], context: ToolContext
    ) -> dict[str, Any]:
        """Search everything that was said and done before in this conversation, tool results
        included. Returns the best passages, each with its address."""
        entries = [entry async for entry in reader.list_entries(context.run)]
        # In a thread: a long conversation takes seconds, and the worker has others to serve.
        hits = await anyio.to_thread.run_sync(find_passages, entries, words)
        return {
            "hits": [
                {"address": entry.address, "in": entry.kind, "text": passage}
                for entry, passage in hits
            ]
        }

    @tool(name="ledger.read", is_repeatable=True, is_read_only=True, effects=READS)
    async def read(
        address: Annotated[str, "Address of a turn, as 37, or of a tool call in it, as 37/4."],
        context: ToolContext,
        start: Annotated[int, "Character to begin with."] = 0,
        chars: Annotated[int, "Most characters to return."] = READ_CHARS,
    ) -> dict[str, Any]:
        """Read a turn of this conversation, or a tool call with its whole result."""
        text = await reader.read(context.run, address)
        end = max(0, start) + max(1, chars)
        shown: dict[str, Any] = {"address": address, "text": text[max(0, start) : end]}
        return {**shown, "next_start": end} if end < len(text) else shown

    return FunctionTools([recall, read], name="ledger")


@value
class ConversationReader:
    """Reads the thread of a run, the run itself included."""

    ledger: Ledger
    threads_of: ThreadsOf

    async def list_entries(
        self, run: RunId, *, low: int = 1, high: int | None = None
    ) -> AsyncIterator[ThreadEntry]:
        """Yield the texts of a thread, root first."""
        facts = await self.ledger.facts(run)
        started = facts[0].event.data
        parent, depth = started.get("parent"), 0
        if parent is not None:
            threads, head = self.threads_of(started), TurnId(str(parent))
            depth = (await threads.get_turn(head)).depth
            for first in range(low, min(depth, high or depth) + 1, PAGE_TURNS):
                last = min(first + PAGE_TURNS - 1, high or depth)
                page = await threads.list_range(head, low=first, high=last)
                objects = await self._objects_in(
                    message for entry in page for message in entry.turn.messages
                )
                for entry in page:
                    messages, count = entry.turn.messages, entry.turn.query_count
                    for one in _texts(entry.depth, messages, count, objects):
                        yield one
        if high is None or low <= depth + 1 <= high:
            own = [fact.message for fact in facts if fact.message is not None]
            count = sum(1 for message in own if message.role == "user")
            for one in _texts(depth + 1, own, count, await self._objects_in(own)):
                yield one

    async def read(self, run: RunId, address: str) -> str:
        """Return the text at an address.

        Raises:
            InvalidOperation: It is not an address.
            NotFound: There is nothing there.
        """
        match = _ADDRESS.fullmatch(address.strip())
        if match is None:
            raise InvalidOperation(f"{address!r} is not an address; a turn's is 37, a call's 37/4")
        depth, call = int(match[1]), None if match[2] is None else int(match[2])
        entries = [entry async for entry in self.list_entries(run, low=depth, high=depth)]
        texts = [
            entry.text if entry.call is None or call is not None else _first_line(entry)
            for entry in entries
            if call is None or entry.call == call
        ]
        if not texts:
            raise NotFound(f"there is nothing at {address} in this thread")
        return "\n\n".join(texts)

    async def _objects_in(self, messages: Iterable[Message | ErasedMessage]) -> Objects:
        # In one statement: a page may have hundreds, and a model may search ten times at once.
        digests = {
            part.object
            for message in messages
            for part in message.parts
            if isinstance(part, ObjectRef)
        }
        return await self.ledger.find_objects(digests)


def _texts(
    depth: int, messages: Sequence[Message | ErasedMessage], query_count: int, objects: Objects
) -> Iterator[ThreadEntry]:
    calls: dict[str, tuple[int, str]] = {}
    for place, message in enumerate(messages):
        for part in message.parts:
            if isinstance(part, Text) or (isinstance(part, ObjectRef) and part.of == "text"):
                kind = "query" if place < query_count else "answer"
                yield ThreadEntry(depth, None, kind, _whole(part, objects))
            elif calls_tool(part):
                number, name = len(calls) + 1, str(part.tool)
                calls[str(part.call_id)] = number, name
                yield ThreadEntry(depth, number, name, f"{name} {_whole(part, objects)}")
            elif answers_call(part):
                number, name = calls.get(str(part.call_id), (0, "tool"))
                yield ThreadEntry(depth, number, name, _whole(part, objects))


def _whole(part: Text | ToolUse | ToolResult | ObjectRef, objects: Objects) -> str:
    """Return the text of a part; of an object that is gone, the excerpt beside its address."""
    match part:
        case Text(inner) | ToolUse(args=inner) | ToolResult(output=inner):
            pass
        case ObjectRef() if part.object in objects:
            document = orjson.loads(objects[part.object])
            inner = document.get("text", document.get("output", document.get("args")))
        case ObjectRef():
            inner = part.excerpt or ""
    return as_text(inner)


def find_passages(entries: Sequence[ThreadEntry], words: str) -> list[tuple[ThreadEntry, str]]:
    """Return the passages that contain most of some words, the rarest counting most."""
    roots = list(dict.fromkeys(_root(word) for word in _WORD.findall(words.lower())))
    roots = ([root for root in roots if root not in COMMON] or roots)[:WORDS_MAX]
    # What these tools returned before repeats what stands elsewhere.
    lowered = [
        (entry, entry.text.lower()) for entry in entries if not entry.kind.startswith(TOOL_SET)
    ]
    counts = {root: sum(root in text for _, text in lowered) for root in roots}
    weights = {root: math.log(1 + len(lowered) / count) for root, count in counts.items() if count}
    scored: list[tuple[float, int, ThreadEntry, str]] = []
    for place, (entry, text) in enumerate(lowered):
        if not any(root in text for root in weights):
            continue
        score, start = find_window(entry.text, weights)
        passage = entry.text[start : start + PASSAGE_CHARS]
        # Of equal passages the newest comes first.
        scored.append((score, place, entry, " ".join(passage.split())))
    scored.sort(key=lambda one: (-one[0], -one[1]))
    return [(entry, passage) for _, _, entry, passage in scored[:HITS_MAX]]


def _root(word: str) -> str:
    root = _ENDING.sub("", word)
    return root if len(root) >= _ROOT_CHARS_MIN else word


def _first_line(entry: ThreadEntry) -> str:
    return f"[{entry.address}] {' '.join(entry.text[:PASSAGE_CHARS].split())}"
