"""A model server that follows a script, over HTTP on 127.0.0.1, in four vendors' protocols.

Knows HTTP, through the standard library, and which path has which dialect. Must never know a
ledger, nor send anything anywhere: a test looks at both sides.

    >>> from turntree.testing.scripted.server import Call, Reply, Rule, ScriptedModel
    >>> look = Reply("Let me look.", calls=(Call("Bash", {"command": "ls"}),))
    >>> rules = [Rule((look, Reply("Two files.")), prompt="files", offers="Bash")]
    >>> with ScriptedModel(rules=rules) as model:
    ...     model.url.startswith("http://127.0.0.1:")
    True

Anthropic's clients take ``url`` as their base, OpenAI's take ``url + "/v1"``, Google's take
``url``. Every request is recorded in ``exchanges`` and, optionally, in a file of JSON lines.
"""

import gzip
import json
import secrets
import socket
import struct
import sys
import threading
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Self, cast

from turntree.core.value import value
from turntree.testing.scripted import anthropic as scripted_anthropic
from turntree.testing.scripted import chat as scripted_chat
from turntree.testing.scripted import google as scripted_google
from turntree.testing.scripted import responses as scripted_responses
from turntree.testing.scripted.dialect import Dialect, Document, Event, OutgoingReply
from turntree.testing.scripted.script import (
    MODEL,
    Answer,
    Break,
    Call,
    Failure,
    MatchedRule,
    Reply,
    Rule,
    Script,
    ScriptRequest,
)

__all__ = [
    "MODEL",
    "Answer",
    "Break",
    "Call",
    "Failure",
    "MatchedRule",
    "RecordedExchange",
    "Reply",
    "Rule",
    "ScriptRequest",
    "ScriptedModel",
]  # fmt: skip

TOKENS_COUNTED = 100
"""The response to every token count request."""
HIDDEN = "•••"
"""Recorded instead of a key."""
_SECRET_HEADERS = frozenset({"authorization", "cookie", "x-api-key", "x-goog-api-key"})


@value
class RecordedExchange:
    """One request as it arrived, and its response."""

    number: int
    method: str
    path: str
    headers: Mapping[str, str]
    """In lower case; keys are hidden."""
    body: Any
    """The JSON body; None if there was none."""
    dialect: str | None = None
    """None for a request that does not ask a model."""
    rule: str | None = None
    """The name of the rule that applied."""
    model: str | None = None
    id: str | None = None
    """The id of the reply, as sent to the client."""
    answer: Answer | None = None
    call_ids: tuple[str, ...] = ()
    """The ids of the tool calls in the reply, in order."""


class ScriptedModel:
    """Replies to model requests from a script, and records every one of them.

    The first matching rule replies; if there is none, the next reply in order. A request that the
    script does not expect gets status 400.
    """

    def __init__(
        self,
        answers: Sequence[Answer] = (),
        *,
        rules: Iterable[Rule] = (),
        log: Path | None = None,
        name: str | None = None,
    ) -> None:
        """Take the script; nothing listens before the ``with`` block begins.

        ``log`` is the file that gets a JSON line for each request. ``name`` is part of every id the
        model gives; by default it is random.
        """
        self.exchanges: list[RecordedExchange] = []
        """All requests, in order of arrival."""
        self.left: list[str] = []
        """Paths of the streams that clients closed early."""
        self._script = Script(answers, rules)
        self._log = log
        self._name = name or secrets.token_hex(6)
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """The base URL, without a path."""
        host, port = self._http.server_address[:2]
        return f"http://{host!s}:{port}"

    @property
    def requests(self) -> list[Any]:
        """The bodies of the requests to a model, in order."""
        return [one.body for one in self.exchanges if one.dialect is not None]

    def __enter__(self) -> Self:
        """Listen on a free port, in a thread of its own."""
        handler = type("Handler", (_Handler,), {"model": self})
        self._http = _Server(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop listening; open connections end with their clients."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def note(self, method: str, path: str, headers: Mapping[str, str], body: object = None) -> None:
        """Record a request that does not ask a model."""
        with self._lock:
            self._keep(RecordedExchange(len(self.exchanges), method, path, headers, body))

    def answer(
        self, dialect: Dialect, path: str, headers: Mapping[str, str], body: Document
    ) -> tuple[ScriptRequest, OutgoingReply | Failure]:
        """Choose the response to a request, and record both."""
        asked = dialect.reads(path.partition("?")[0], body)
        with self._lock:
            answer, rule = self._script.answer(asked)
            number = len(self.exchanges)
            told = (
                answer
                if isinstance(answer, Failure)
                else OutgoingReply(self._name, number, asked.model, answer)
            )
            kept = RecordedExchange(
                number, "POST", path, headers, body, dialect.name, rule, asked.model
            )
            self._keep(replace(kept, answer=answer, **_identity(dialect, told)))
        return asked, told

    def _keep(self, exchange: RecordedExchange) -> None:
        self.exchanges.append(exchange)
        if self._log is not None:
            with self._log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(exchange)) + "\n")


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect: a killed program disconnects in the middle."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    model: ClassVar[ScriptedModel]
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.model.note("HEAD", self.path, self._open_headers())
        self._send(200, b"")

    def do_GET(self) -> None:
        self.model.note("GET", self.path, self._open_headers())
        if self.path.partition("?")[0].endswith("/models"):
            listed = {"id": MODEL, "object": "model", "owned_by": "scripted"}
            named = {"name": f"models/{MODEL}"}
            self._send_json(200, {"object": "list", "data": [listed], "models": [named]})
        else:
            self._send_json(404, _unknown(self.path))

    def do_CONNECT(self) -> None:
        """Refuse to be a proxy, and record the destination."""
        self.model.note("CONNECT", self.path, self._open_headers())
        self.close_connection = True
        self._send_json(403, {"error": {"message": "this proxy leads nowhere"}})

    def do_POST(self) -> None:
        try:
            body = json.loads(self._body() or b"null")
        except (OSError, zlib.error, ValueError):
            self.model.note("POST", self.path, self._open_headers())
            self._send_json(400, {"error": {"message": "the body is no JSON"}})
            return
        path = self.path.partition("?")[0]
        dialect = _dialect(path)
        if dialect is None or not isinstance(body, dict):
            self.model.note("POST", self.path, self._open_headers(), body)
            counted = path.lower().endswith(("/count_tokens", ":counttokens"))
            counts = {"input_tokens": TOKENS_COUNTED, "totalTokens": TOKENS_COUNTED}
            self._send_json(200, counts) if counted else self._send_json(404, _unknown(path))
            return
        document = cast("Document", body)
        asked, told = self.model.answer(dialect, self.path, self._open_headers(), document)
        if isinstance(told, Failure):
            failed = dialect.fails(told)
            self._send(told.status, json.dumps(failed).encode(), told.headers)
        elif asked.streams:
            self._stream(dialect, told)
        else:
            self._send_json(200, dialect.writes(told))

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: a test's output is its own."""

    def _open_headers(self) -> dict[str, str]:
        named = ((name.lower(), value) for name, value in self.headers.items())
        return {name: HIDDEN if name in _SECRET_HEADERS else value for name, value in named}

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            raw = b"".join(iter(self._chunk, b""))
        else:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return gzip.decompress(raw) if self.headers.get("Content-Encoding") == "gzip" else raw

    def _chunk(self) -> bytes:
        size = int(self.rfile.readline().partition(b";")[0].strip() or b"0", 16)
        data = self.rfile.read(size)
        self.rfile.readline()
        return data

    def _send_json(self, status: int, document: Mapping[str, Any]) -> None:
        self._send(status, json.dumps(document).encode())

    def _send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, content in (headers or {}).items():
            self.send_header(name, content)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, dialect: Dialect, told: OutgoingReply) -> None:
        reply = told.reply
        events: Iterable[Event] = dialect.streams(told)
        if reply.breaks is not None:
            events = [*islice(events, reply.breaks.after)]
            failure = reply.breaks.failure
            if failure is not None:
                events.append(("error", dialect.fails(failure)))
        try:
            self._send_events(events, reply.pause_s)
        except ConnectionError:
            self.model.left.append(self.path)
            return
        if reply.breaks is not None and reply.breaks.is_reset:
            # Without this the connection would look as if it had closed normally.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()

    def _send_events(self, events: Iterable[Event], pause_s: float) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-cache")
        # The stream has no length: the end of the connection ends it.
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for name, data in events:
            time.sleep(pause_s)
            text = data if isinstance(data, str) else json.dumps(data)
            line = f"data: {text}\n\n" if name is None else f"event: {name}\ndata: {text}\n\n"
            self.wfile.write(line.encode())
            self.wfile.flush()


def _dialect(path: str) -> Dialect | None:
    """Return the dialect of a path, with any prefix."""
    if path.endswith("/messages"):
        return scripted_anthropic.DIALECT
    if path.endswith("/responses"):
        return scripted_responses.DIALECT
    if path.endswith("/chat/completions"):
        return scripted_chat.DIALECT
    if path.endswith((":generateContent", ":streamGenerateContent")):
        return scripted_google.DIALECT
    return None


def _identity(dialect: Dialect, told: OutgoingReply | Failure) -> dict[str, Any]:
    if isinstance(told, Failure):
        return {}
    document = dialect.writes(told)
    id = document.get("id") or document.get("responseId")
    return {"id": id, "call_ids": tuple(id for id, _ in told.calls(dialect.call_prefix))}


def _unknown(path: str) -> Document:
    return {"error": {"message": f"nothing is scripted for {path}"}}
