"""A chat-completions server that answers from a script, for tests of loops that are not ours.

Knows HTTP, through the standard library, and the JSON of chat completions. Must never know a
ledger: whoever tests with it looks at both sides.
"""

import json
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Self

MODEL = "scripted-1"


def says(text: str, **more: Any) -> dict[str, Any]:
    """Return the completion in which a model says something; ``more`` goes on top."""
    return completion({"role": "assistant", "content": text}, "stop", **more)


def calls(*uses: tuple[str, str, str], **more: Any) -> dict[str, Any]:
    """Return the completion in which a model asks for tools: (call id, tool, arguments)."""
    asked = [
        {"id": id, "type": "function", "function": {"name": tool, "arguments": arguments}}
        for id, tool, arguments in uses
    ]
    message = {"role": "assistant", "content": None, "tool_calls": asked}
    return completion(message, "tool_calls", **more)


def completion(message: Mapping[str, Any], finish_reason: str, **more: Any) -> dict[str, Any]:
    """Return a completion with one choice."""
    return {
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": MODEL,
        "choices": [{"index": 0, "message": dict(message), "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        **more,
    }


class ScriptedChatServer:
    """Answers each request for a completion with the next one of its script, on 127.0.0.1.

    A completion without an id is given one. When the script has ended, a request is refused
    with a message that says so.
    """

    def __init__(self, script: Sequence[Mapping[str, Any]]) -> None:
        """Take the script; nothing listens before the ``with`` statement begins."""
        self.requests: list[dict[str, Any]] = []
        """What was asked, in order."""
        self._script = list(script)
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """What a client is given as its base URL."""
        host, port = self._http.server_address[:2]
        return f"http://{host!s}:{port}/v1"

    def __enter__(self) -> Self:
        """Listen on a free port, in a thread of its own."""
        handler = type("Handler", (_Handler,), {"script": self})
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop listening; open connections end with their clients."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def answer(self, path: str, request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Return the status and the document for one request."""
        if path != "/v1/chat/completions":
            return 404, {"error": {"message": f"nothing is scripted for {path}"}}
        with self._lock:
            number = len(self.requests)
            self.requests.append(request)
        if number >= len(self._script):
            # Not a 5xx: a client would try again and wait in between.
            return 400, {"error": {"message": f"the script ended after {number} completions"}}
        return 200, {"id": f"chatcmpl-{number}", **self._script[number]}


class _Handler(BaseHTTPRequestHandler):
    script: ClassVar[ScriptedChatServer]
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        status, document = self.script.answer(self.path, json.loads(self.rfile.read(length)))
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: a test's output is its own."""
