"""Build the search document of a turn: which texts are indexed, and which of their lexemes.

The index must not become as large as what it indexes, so a document holds a bounded number of
lexemes, those that people remember: question and answer, names of tools, paths and commands, and
the beginning of tool output. Each kind of text has a quota that the others cannot take away.

A fact may stand anywhere in a long reply or tool result, so every other word is kept too, but only
as a *mark* of four characters: texts are full of words that occur once, and each of them would be
an entry of the index. Two words may share a mark; the texts of the candidates decide. With its
marks, the index of 1,000 turns of 10 KB takes 0.41 of their transcripts.

Pure: the same turn gives the same document everywhere. Knows no database.
"""

import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, get_args

from turntree.core.canonical import Json
from turntree.core.ids import Digest
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
from turntree.core.message_context import files_of
from turntree.core.turn import Turn
from turntree.core.value import value
from turntree.search.passages import PASSAGE_CHARS, find_window
from turntree.search.tokenizer import distinct_lexemes, lexemes_of

Where = Literal["asked", "answered", "tool", "file", "output"]
"""The kind of text that contains a word."""
PLACES: Final = get_args(Where)

RECIPE: Final = 3
"""Documents of an older recipe are rebuilt; raise it with every change of what is indexed."""
# The sum of ``SHARES``. Every lexeme is an entry of the index, which grows with the ledger.
LEXEMES_MAX: Final = 54
SHARES: Final[Mapping[Where, int]] = {
    "asked": 20, "file": 7, "tool": 9, "answered": 14, "output": 4,
}  # fmt: skip
"""Number of lexemes reserved for each kind of text. Unused ones go to the others, in order."""
TEXT_CHARS_MAX: Final = 4_000
OUTPUT_CHARS_MAX: Final = 300
ARGUMENT_CHARS_MAX: Final = 300
OUTPUTS_MAX: Final = 12
MARKS_MAX: Final = 3_000
"""Number of marks in a document; that many different words need about 60 KB of text."""
LIFTED_BYTES_READ: Final = 128_000
"""What is read of a large part. Coding agents cut what a tool prints well below it."""
_MARK_SIGNS: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"
MEANING_CHARS_MAX: Final = 1_200
_ESCAPE: Final = re.compile(r"\\(?:u[0-9a-f]{4}|.)", re.IGNORECASE)
_OWN_TOOLS: Final = re.compile(r"(?:^|[_./])turntree[_./]")
"""Our own tools, as agents name them: ``mcp__turntree__search``, ``turntree_search``."""
_ENVELOPE: Final = re.compile(r'"(?:call_id|kind|status)":"[^"]*",?|"(?:args|output|text|tool)":')


@value
class SearchPassage:
    """A text of a turn that is searched, and the message it is in."""

    where: Where
    text: str
    message: int


@value
class SearchDocument:
    """What the index stores for a turn."""

    lexemes: tuple[str, ...]
    facets: tuple[str, ...]
    """Exact values that operators ask for: ``by=ana``, ``tool=bash``, ``failed=``."""
    marks: tuple[str, ...] = ()
    """The words that are not among ``lexemes``."""


def document_of(turn: Turn, lifted: Mapping[Digest, bytes] | None = None) -> SearchDocument:
    """Return the document of a turn; ``lifted`` holds the beginnings of its large parts."""
    by_place: dict[Where, dict[str, None]] = {where: {} for where in PLACES}
    for passage in passages_of(turn, lifted or {}):
        lexemes = by_place[passage.where]
        if len(lexemes) < LEXEMES_MAX:
            lexemes.update(dict.fromkeys(lexemes_of(passage.text)))
    chosen = dict.fromkeys(_choose(by_place))
    marks = _marks(turn, lifted or {}, chosen)
    return SearchDocument(
        tuple(sorted(chosen)), tuple(sorted(facets_of(turn))), tuple(sorted(marks))
    )


def mark_of(lexeme: str) -> str:
    """Return the mark of a lexeme; no lexeme and no facet looks like one."""
    number = zlib.crc32(lexeme.encode())
    return "~" + "".join(_MARK_SIGNS[number >> shift & 63] for shift in (0, 6, 12))


def _marks(turn: Turn, lifted: Mapping[Digest, bytes], known: Mapping[str, None]) -> Iterable[str]:
    """Return the marks of all words that have no entry of their own."""
    marks: dict[str, None] = {}
    for passage in _whole_texts(turn, lifted):
        for lexeme in distinct_lexemes(passage.text):
            if lexeme not in known:
                marks[mark_of(lexeme)] = None
            if len(marks) >= MARKS_MAX:
                return marks
    return marks


def _choose(by_place: Mapping[Where, Mapping[str, None]]) -> Iterable[str]:
    """Return the lexemes that fit: each kind's quota first, then the rest, in order."""
    chosen: dict[str, None] = {}
    for where, share in SHARES.items():
        fresh = [lexeme for lexeme in by_place[where] if lexeme not in chosen]
        chosen.update(dict.fromkeys(fresh[:share]))
    for where in SHARES:
        for lexeme in by_place[where]:
            if len(chosen) >= LEXEMES_MAX:
                return chosen
            chosen[lexeme] = None
    return chosen


def facet(name: str, value: str = "") -> str:
    """Return a facet as the index stores it; lexemes have no equals sign, so the two differ."""
    return f"{name}={value.lower()}"


def facets_of(turn: Turn) -> set[str]:
    """Return the facets by which operators find a turn."""
    header = turn.header
    facets = {facet("by", header.by.id)}
    failed = header.outcome != "completed"
    for part in _parts(turn):
        match part:
            case ToolUse() | ObjectRef(of="tool_use"):
                facets.add(facet("tool", str(part.tool)))
            case ToolResult() | ObjectRef(of="tool_result"):
                failed = failed or part.status != "ok"
            case _:
                pass
    return facets | ({facet("failed")} if failed else set())


def _parts(turn: Turn) -> Iterator[object]:
    for message in turn.messages:
        yield from message.parts


def passages_of(
    turn: Turn, lifted: Mapping[Digest, bytes], weights: Mapping[str, float] | None = None
) -> Iterator[SearchPassage]:
    """Yield the texts of a turn that are searched, in message order.

    ``weights`` has beginnings of words, in lower case: of each text that is too long to be read
    whole, the passage with most of them comes too.
    """
    for whole in _whole_texts(turn, lifted) if weights else ():
        if len(whole.text) > (OUTPUT_CHARS_MAX if whole.where == "output" else TEXT_CHARS_MAX):
            score, start = find_window(whole.text, weights or {})
            if score:
                text = whole.text[start : start + PASSAGE_CHARS]
                yield SearchPassage(whole.where, text, whole.message)
    outputs, echoes = 0, _echoes(turn)
    for index, message in enumerate(turn.messages):
        if isinstance(message, ErasedMessage):
            continue
        for file in files_of(message):
            yield SearchPassage("file", file.path, index)
        for part in message.parts:
            if answers_call(part) and part.call_id in echoes:
                continue
            passage = _passage(message, part, index, lifted)
            if passage is None:
                continue
            outputs += passage.where == "output"
            if passage.where != "output" or outputs <= OUTPUTS_MAX:
                yield passage


def _whole_texts(turn: Turn, lifted: Mapping[Digest, bytes]) -> Iterator[SearchPassage]:
    """Yield what was said and what tools returned, each text as a whole."""
    echoes = _echoes(turn)
    for index, message in enumerate(turn.messages):
        if isinstance(message, ErasedMessage) or message.role == "system":
            continue
        where: Where = "answered" if message.role == "assistant" else "asked"
        for part in message.parts:
            match part:
                case Text(text):
                    yield SearchPassage(where, text, index)
                case ObjectRef(of="text", object=digest):
                    yield SearchPassage(where, _unwrapped(lifted.get(digest, b"")), index)
                case ToolResult(id, _, output) if id not in echoes:
                    yield SearchPassage("output", " ".join(_strings(output)), index)
                case ObjectRef(of="tool_result", object=digest) if part.call_id not in echoes:
                    yield SearchPassage("output", _unwrapped(lifted.get(digest, b"")), index)
                case _:
                    pass


def _echoes(turn: Turn) -> set[str | None]:
    """Return the calls whose results quote other turns: those would be found instead of them."""
    return {
        part.call_id
        for message in turn.messages
        for part in message.parts
        if calls_tool(part) and _OWN_TOOLS.search(str(part.tool))
    }


def _passage(
    message: Message, part: object, index: int, lifted: Mapping[Digest, bytes]
) -> SearchPassage | None:
    match part:
        case Text(text):
            where: Where = "answered" if message.role == "assistant" else "asked"
            # System prompts are the same in a thousand turns, so they single out none of them.
            return None if message.role == "system" else SearchPassage(where, _ends(text), index)
        case ToolUse(_, name, args):
            words = " ".join(_strings(args))[:ARGUMENT_CHARS_MAX]
            return SearchPassage("tool", f"{name} {words}", index)
        case ToolResult(_, _, output):
            return SearchPassage("output", " ".join(_strings(output))[:OUTPUT_CHARS_MAX], index)
        case ObjectRef(of, digest):
            return _lifted(message, of, _unwrapped(lifted.get(digest, b"")), index)
        case _:
            return None


def _lifted(message: Message, of: str, text: str, index: int) -> SearchPassage | None:
    match of:
        case "text" if message.role != "system":
            where: Where = "answered" if message.role == "assistant" else "asked"
            return SearchPassage(where, text[:TEXT_CHARS_MAX], index)
        case "tool_use":
            return SearchPassage("tool", text[:ARGUMENT_CHARS_MAX], index)
        case "tool_result":
            return SearchPassage("output", text[:OUTPUT_CHARS_MAX], index)
        case _:
            return None


def _unwrapped(beginning: bytes) -> str:
    """Return the words of a large part; one that was cut cannot be parsed."""
    try:
        document = json.loads(beginning)
    except ValueError:
        text = _ENVELOPE.sub(" ", beginning.decode(errors="ignore"))
        return _ESCAPE.sub(" ", text).strip('{",} ')
    members = [document[name] for name in ("tool", "args", "output", "text") if name in document]
    return " ".join(_strings(members))


def _ends(text: str) -> str:
    """Return a text, or its beginning and its end: what people remember of a long one."""
    if len(text) <= TEXT_CHARS_MAX:
        return text
    half = TEXT_CHARS_MAX // 2
    return f"{text[:half]}\n…\n{text[-half:]}"


def _strings(value: Json) -> Iterator[str]:
    """Yield the strings of a document, in order, without its member names."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _strings(inner)


def meaning_of(turn: Turn, lifted: Mapping[Digest, bytes] | None = None) -> str:
    """Return the text to embed for a turn: the question, then the two ends of the answer."""
    passages = list(passages_of(turn, lifted or {}))
    query = "\n".join(p.text for p in passages if p.where == "asked").strip()
    reply = "\n".join(p.text for p in passages if p.where == "answered").strip()
    half = MEANING_CHARS_MAX // 2
    head = query[:half]
    left = MEANING_CHARS_MAX - len(head)
    text = reply if len(reply) <= left else f"{reply[: left // 2]} {reply[-left // 2 :]}"
    return f"{head}\n{text}".strip()
