"""What ``recall_mcp`` asks, asked of mem0: the same turns, the same questions.

mem0 gets an environment of its own (``.bench/mem0``) and the embedder that Turntree comes with,
served on loopback, so no request leaves this machine. Without the weights, or where mem0 cannot be
installed, there is no figure.
"""

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from turntree.search.embedder import Embedder
from turntree.search.embedders.minilm import find_minilm

ROOT = Path(__file__).parents[1]
ENVIRONMENT = ROOT / ".bench" / "mem0"
REQUIREMENTS = ("mem0ai==2.2.1", "openai==3.51.0", "qdrant-client==1.20.0")
TIMEOUT_S = 1_800


class RivalMissing(Exception):
    """mem0 cannot run here; says why."""


def ask_mem0(
    turns: Sequence[tuple[str, Sequence[str]]], questions: Sequence[str]
) -> list[list[str]]:
    """Return the turns that mem0 finds for each question, best first.

    ``turns`` has the id and the texts of each turn.

    Raises:
        RivalMissing: It cannot run here.
    """
    embedder = find_minilm()
    if embedder is None:
        raise RivalMissing("the weights of MiniLM are not installed")
    python = _ensure_environment()
    with _serving(embedder) as url:
        document = {
            "url": url,
            "dims": embedder.dims,
            "turns": [
                {"id": id, "messages": [{"role": "user", "content": text} for text in texts]}
                for id, texts in turns
            ],
            "questions": list(questions),
        }
        done = subprocess.run(
            [python, ROOT / "proofs" / "rivals" / "mem0_memory.py"],
            input=json.dumps(document),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    if done.returncode != 0:
        raise RivalMissing(f"mem0 failed: {done.stderr[-800:]}")
    found: list[list[str]] = json.loads(done.stdout.splitlines()[-1])
    return found


def _ensure_environment() -> Path:
    python, stamp = ENVIRONMENT / "bin" / "python", ENVIRONMENT / "requirements"
    wanted = "\n".join(REQUIREMENTS)
    if not stamp.exists() or stamp.read_text() != wanted:
        make = ["uv", "venv", "--quiet", "--clear", "--python", sys.executable, str(ENVIRONMENT)]
        install = ["uv", "pip", "install", "--quiet", "--python", str(python), *REQUIREMENTS]
        try:
            subprocess.run(make, check=True, capture_output=True, text=True)
            subprocess.run(install, check=True, capture_output=True, text=True)
        except FileNotFoundError as error:
            raise RivalMissing("uv is not installed") from error
        except subprocess.CalledProcessError as error:
            raise RivalMissing(f"mem0 cannot be installed: {error.stderr[-400:]}") from error
        stamp.write_text(wanted)
    return python


@contextmanager
def _serving(embedder: Embedder) -> Generator[str, None, None]:
    """Serve an embedder in the form of OpenAI's, and lend its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers["Content-Length"])
            asked: dict[str, Any] = json.loads(self.rfile.read(size))
            texts = [asked["input"]] if isinstance(asked["input"], str) else asked["input"]
            vectors = asyncio.run(embedder.embed(texts, "document"))
            data = [
                {"object": "embedding", "index": place, "embedding": vector}
                for place, vector in enumerate(vectors)
            ]
            usage = {"prompt_tokens": 0, "total_tokens": 0}
            answer = {"object": "list", "model": "minilm", "data": data, "usage": usage}
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: figures alone are printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
