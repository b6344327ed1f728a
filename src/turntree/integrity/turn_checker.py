"""Checks stored turns: bytes against digests, columns against bytes.

Pure: it takes rows, and returns findings and the rows derived from them. It must never know a
connection, and it never trusts what it reads: an attacker may have written anything into a body.

Every body of the ledger passes through here, so documents are parsed once and checked as plain
JSON, without the values of ``core``; ``core.turn`` says what they mean.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

import orjson

from turntree.core import message as messages
from turntree.core.canonical import canonical
from turntree.core.errors import NotCanonical
from turntree.core.ids import is_instant
from turntree.core.message import ROLES, SOURCES
from turntree.core.message_context import TouchedFile, files_of
from turntree.core.redaction import find_keys
from turntree.ledger.turn_rows import actor_column

Complaint = tuple[str, str, str]
"""The violated invariant, a sentence, and the subject."""

Derived = tuple[Any, ...]
"""A row derived from a body or from the journal; its first column is the turn's id."""

UNREADABLE: Final = (ValueError, KeyError, TypeError, AttributeError, IndexError, NotCanonical)
"""Exceptions that reading a malformed document raises."""

_STUB: Final = re.compile(rb'\{"erased":"sha256:([0-9a-f]{64})"\}')
_OBJECT: Final = re.compile(r"sha256:([0-9a-f]{64})")
_STUB_BEGINS: Final = b'{"erased":"'
_BETWEEN: Final = '","sha256:'
_ANSWERED: Final = frozenset({"assistant", "erased"})
_REPLYING: Final = frozenset({"assistant", "tool", "erased"})
_COMPACTION: Final = (
    "summarized_through", "first_kept", "turns_summarized", "kind", "trigger",
    "tokens_before", "tokens_after", "summary_tokens", "duration_ms",
)  # fmt: skip


def examine(rows: Sequence[Sequence[Any]]) -> "TurnChecker":
    """Return the findings of a page of stored turns."""
    read = TurnChecker()
    read.read(rows)
    return read


class MessageTotals:
    """What the messages of one turn contain."""

    __slots__ = ("answers", "files", "gaps", "objects", "roles", "uses")

    def __init__(self) -> None:
        """Start without messages."""
        self.roles: list[str] = []
        """The role of each message; ``erased`` for an erased one."""
        self.uses: list[tuple[str, str]] = []
        """Call id and tool, in the order of the calls."""
        self.answers: list[tuple[str, str]] = []
        """Call id and status, in the order of the results."""
        self.files: list[tuple[int, TouchedFile]] = []
        """The files of messages, each with the position of its message."""
        self.gaps: list[int] = []
        """The positions of erased messages."""
        self.objects: set[str] = set()
        """The objects that parts refer to."""


@dataclass(slots=True)
class TurnChecker:
    """The findings of a page of stored turns."""

    complaints: list[Complaint] = field(default_factory=list[Complaint])
    tool_calls: list[Derived] = field(default_factory=list[Derived])
    compactions: list[Derived] = field(default_factory=list[Derived])
    files: list[Derived] = field(default_factory=list[Derived])
    holders: list[Derived] = field(default_factory=list[Derived])
    """Distinct pairs of a turn and the digest of an object in its messages, in order."""
    objects: dict[str, str] = field(default_factory=dict[str, str])
    """The objects that messages and headers refer to, each with one such turn."""
    manifests: list[tuple[str, str, set[str]]] = field(
        default_factory=list[tuple[str, str, set[str]]]
    )
    """A turn, the digest of its manifest and the tools it used."""
    sources: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    """A turn, its digest and the digest of a turn it was derived from."""
    gaps: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    """Turns with erased messages, and the positions of those."""
    unproven: set[str] = field(default_factory=set[str])
    """Turns whose bytes are unproven, from which nothing may be derived."""

    def read(self, rows: Sequence[Sequence[Any]]) -> None:
        """Check turns; each row has id, digest, parent's digest, header, messages and columns."""
        # A turn without a body is found by a separate check.
        whole = [row for row in rows if row[4] is not None]
        self.unproven.update(row[0] for row in rows if row[4] is None)
        for row in whole:
            self._examine(row)
        for place in find_keys([row[4] for row in whole]):
            self._complain("I61", "what looks like a secret key stands in it", whole[place][0])

    def _examine(self, row: Sequence[Any]) -> None:
        id, digest, parent, header, body = row[:5]
        before = len(self.complaints)
        try:
            # A canonical document contains no line break, so all lines can be parsed as one array.
            text = b"[" + header + (b"," + body.replace(b"\n", b",") if body else b"") + b"]"
            documents = orjson.loads(text)
            head = documents[0]
            self._prove(id, digest, parent, header, body, head)
            if orjson.dumps(documents, option=orjson.OPT_SORT_KEYS) != text:
                self._check_canonical(id, documents, header, body)
            self._compare_columns(id, head, row[5:])
            said = self._listen(id, documents)
            self._derive(id, digest, head, said)
            count = head["messages"]["query"]
            query, reply = said.roles[:count], said.roles[count:]
            if not _is_usual(query, reply, count):
                for sentence in _list_faults(head, query, reply, len(said.roles), count):
                    self._complain("I16", sentence, id)
            self._check_calls(id, said)
        except UNREADABLE:
            self._complain("I12", "the body cannot be read", id)
            self.unproven.add(id)
        if len(self.complaints) > before:
            self.unproven.update(
                who for rule, _, who in self.complaints[before:] if rule in ("I12", "I15")
            )

    def _complain(self, invariant: str, sentence: str, subject: str) -> None:
        self.complaints.append((invariant, sentence, subject))

    def _prove(
        self,
        id: str,
        digest: bytes,
        parent: bytes | None,
        header: bytes,
        body: bytes,
        head: Mapping[str, Any],
    ) -> None:
        lines = _split_lines(body) if body else []
        digests = [sha256(line).hexdigest() for line in lines]
        for place, line in enumerate(lines):
            if line.startswith(_STUB_BEGINS) and (stub := _STUB.fullmatch(line)) is not None:
                digests[place] = stub[1].decode()
        proof, count = head["messages"], len(lines)
        listed = f'["sha256:{_BETWEEN.join(digests)}"]' if digests else "[]"
        said = sha256(listed.encode()).hexdigest()
        if (
            sha256(header).digest() != digest
            or proof["digest"] != f"sha256:{said}"
            or head.get("parent") != (None if parent is None else f"sha256:{parent.hex()}")
        ):
            self._complain(
                "I12", "the body does not prove the digest, or not after this parent", id
            )
        if proof["count"] != count:
            sentence = f"the header counts {proof['count']} messages, the body holds {count}"
            self._complain("I15", sentence, id)

    def _check_canonical(self, id: str, documents: list[Any], header: bytes, body: bytes) -> None:
        # Floats and non-ASCII keys need the slow serializer.
        head, *said = map(canonical, documents)
        if (head, b"\n".join(said)) != (header, body):
            self._complain("I2", "the body is not written canonically", id)

    def _compare_columns(self, id: str, head: Mapping[str, Any], columns: Sequence[Any]) -> None:
        started, sealed = head["started_at"], head["sealed_at"]
        said = (
            head["kind"], head["outcome"], head["agent_role"],
            actor_column(head["by"]["kind"], head["by"]["id"]), head.get("model"),
            head.get("provider"), column_of(started), column_of(sealed),
        )  # fmt: skip
        if head["id"] != id:
            self._complain("I2", f"the header is that of turn {head['id']}", id)
        if said != tuple(columns):
            self._complain("I2", "a column says something else than the header", id)
        if not (is_instant(started) and is_instant(sealed)):
            self._complain("I4", "a moment is not written as one", id)

    def _listen(self, id: str, documents: list[Any]) -> MessageTotals:
        said = MessageTotals()
        for place, message in enumerate(documents[1:]):
            parts = message.get("parts")
            if parts is None:
                said.gaps.append(place)
                said.roles.append("erased")
                continue
            role = message["role"]
            said.roles.append(role)
            if role not in ROLES or ("source" in message and not _may_have_source(message)):
                self._complain("I19", "a source or a role stands where it cannot", id)
            if "at" in message and not is_instant(message["at"]):
                self._complain("I4", "a moment is not written as one", id)
            if "context" in message:
                said.files += [(place, file) for file in files_of(messages.from_json(message))]
            for part in parts:
                kind = part["kind"]
                if kind == "tool_use":
                    said.uses.append((part["call_id"], part["tool"]))
                elif kind == "tool_result":
                    said.answers.append((part["call_id"], part["status"]))
                elif kind != "text":
                    self._hear(id, said, part, part["part"] if kind == "object_ref" else kind)
        return said

    def _hear(self, id: str, said: MessageTotals, part: Mapping[str, Any], kind: str) -> None:
        if kind == "tool_use":
            said.uses.append((part["call_id"], part["tool"]))
        elif kind == "tool_result":
            said.answers.append((part["call_id"], part["status"]))
        if "object" in part and part["kind"] in ("object_ref", "image", "audio", "file"):
            self.objects[part["object"]] = id
            said.objects.add(part["object"])

    def _derive(self, id: str, digest: bytes, head: Mapping[str, Any], said: MessageTotals) -> None:
        if said.gaps:
            self.gaps[id] = said.gaps
        answers = dict(said.answers)
        for place, (call, tool) in enumerate(said.uses):
            self.tool_calls.append((id, place, call, tool, answers.get(call)))
        for sequence, (place, file) in enumerate(said.files):
            lines = (file.line_start, file.line_end)
            self.files.append((id, place, sequence, file.kind, file.path, *lines))
        if said.objects:
            digests = (_OBJECT.fullmatch(name) for name in said.objects)
            raw = sorted(bytes.fromhex(digest[1]) for digest in digests if digest is not None)
            self.holders += [(id, digest) for digest in raw]
        compaction = head.get("compaction")
        if compaction is not None:
            self.compactions.append((id, *map(compaction.get, _COMPACTION)))
        if (compaction is not None) != (head["kind"] == "compaction"):
            sentence = "a compaction has no details, or another turn has"
            self._complain("I23", sentence, id)
        if (manifest := head.get("manifest")) is not None:
            self.objects[manifest] = id
            # A call of a tool that was not offered is refused, so the tool was not used.
            failed = {call for call, status in said.answers if status == "error"}
            used = {tool for call, tool in said.uses if call not in failed}
            self.manifests.append((id, manifest, used))
        for source in head.get("derived_from", ()):
            self.sources.append((id, f"sha256:{digest.hex()}", str(source)))

    def _check_calls(self, id: str, said: MessageTotals) -> None:
        if said.gaps:
            return
        asked = [call for call, _ in said.uses]
        answered = [call for call, _ in said.answers]
        if asked == answered and len(asked) == len(set(asked)):
            return
        if set(asked) - set(answered):
            self._complain("I17", "a tool call has no result", id)
        if set(answered) - set(asked):
            self._complain("I18", "a result names no call of its turn", id)
        if len(set(answered)) < len(answered) or len(set(asked)) < len(asked):
            self._complain("I18", "a call was made twice or has two results", id)


def _split_lines(body: bytes) -> list[bytes]:
    """Return the lines of a body.

    Messages are long. ``find`` skips over one much faster than ``split``, which looks at each byte.
    """
    lines: list[bytes] = []
    begin = 0
    while (end := body.find(b"\n", begin)) >= 0:
        lines.append(body[begin:end])
        begin = end + 1
    lines.append(body[begin:])
    return lines


def _is_usual(query: list[str], reply: list[str], count: int) -> bool:
    """Return whether the roles are without fault in a turn of any kind and outcome."""
    return (
        count == len(query) > 0
        and "assistant" not in query
        and _REPLYING.issuperset(reply)
        and not _ANSWERED.isdisjoint(reply)
    )


def _list_faults(
    head: Mapping[str, Any], query: list[str], reply: list[str], messages: int, count: int
) -> Iterator[str]:
    if not 0 <= count <= messages:
        yield "the query is longer than the turn"
    if not query and head["kind"] == "normal":
        yield "it answers nothing"
    if "assistant" in query:
        yield "an assistant's message stands in the query"
    if not _REPLYING.issuperset(reply):
        yield "the reply holds what was sent in"
    if head["outcome"] == "completed" and not _ANSWERED.intersection(reply):
        yield "it is completed without a reply"


def _may_have_source(message: Mapping[str, Any]) -> bool:
    return message["role"] != "assistant" and message["source"] in SOURCES


def column_of(moment: str) -> str:
    """Return a timestamp as the database formats its column."""
    seconds = f"{moment[:10]} {moment[11:23]}".rstrip("0").rstrip(".")
    return f"{seconds}+00"
