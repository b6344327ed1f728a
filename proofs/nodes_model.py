"""A model on this machine that speaks slowly, and stamps each word with the time it was said.

    python -m proofs.nodes_model

It speaks OpenAI's chat completions as a stream, on a free port of loopback, which is the first line
that it prints. ``say 20`` in the last message asks for 20 words. A word is its number and the time
of the machine's monotonic clock in nanoseconds, ``7@81234567890``, so that a reader in another
process can tell how long it was on its way. No two replies are alike: what was said before a worker
died can be told from what its successor says.
"""

import asyncio
import json
import re
import socket
import time
from typing import Any, Final

import uvicorn
from starlette.types import Receive, Scope, Send

PAUSE_S: Final = 0.06
WORDS: Final = 20
_ASKED: Final = re.compile(r"say (?P<words>\d+)")


async def speak(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request with a stream of words."""
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    asked: dict[str, Any] = json.loads(body or b"{}")
    if not scope["path"].endswith("/chat/completions"):
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b""})
        return
    found = _ASKED.findall(json.dumps(asked.get("messages", [])[-1:]))
    words = int(found[-1]) if found else WORDS
    headers = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    for number in range(words):
        await asyncio.sleep(PAUSE_S)
        await send(_event({"content": f"{number}@{time.monotonic_ns()} "}))
    usage = {"prompt_tokens": 1, "completion_tokens": words, "total_tokens": words + 1}
    await send(_event({}, "stop", usage))
    await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})


def _event(
    delta: dict[str, str], finish_reason: str | None = None, usage: dict[str, int] | None = None
) -> dict[str, Any]:
    chunk = {
        "id": "said", "object": "chat.completion.chunk", "created": 1, "model": "slow-1",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
        "usage": usage,
    }  # fmt: skip
    body = f"data: {json.dumps(chunk)}\n\n".encode()
    return {"type": "http.response.body", "body": body, "more_body": True}


def main() -> None:
    """Speak until this process is ended."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(speak, log_level="critical", access_log=False, lifespan="off")
    asyncio.run(uvicorn.Server(config).serve([listener]))


if __name__ == "__main__":
    main()
