"""A receiver of webhooks on loopback, which answers as a test says."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """A request that arrived."""

    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        """The id of the message."""
        return self.headers["webhook-id"]

    @property
    def document(self) -> Any:
        """What it says."""
        return json.loads(self.body)


@dataclass(slots=True)
class WebhookReceiver:
    """What arrived, and how the next requests are answered."""

    port: int = 0
    messages: list[ReceivedMessage] = field(default_factory=list[ReceivedMessage])
    answers: list[int] = field(default_factory=list[int])
    """Statuses of the next answers; 200 when there are none. 0 says nothing until the test ends."""
    is_over: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        """Where it is reached."""
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def host(self) -> str:
        """The host that has to be permitted."""
        return f"127.0.0.1:{self.port}"


@contextmanager
def receiving_webhooks() -> Generator[WebhookReceiver, None, None]:
    """Receive webhooks while the block lasts."""
    receiver = WebhookReceiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): text for name, text in self.headers.items()}
            receiver.messages.append(ReceivedMessage(headers, body))
            status = receiver.answers.pop(0) if receiver.answers else 200
            if status == 0:
                receiver.is_over.wait(30)
                return
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("location", f"{receiver.url}/elsewhere")
            self.end_headers()
            self.wfile.write(b"no\x1b[31m more" * 100 if status >= 400 else b"")

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.is_over.set()
        server.shutdown()
        server.server_close()
