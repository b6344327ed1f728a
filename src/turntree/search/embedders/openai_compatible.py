"""Embed texts with any OpenAI-compatible endpoint: a hosted model, or a server of your own.

Knows ``POST {url}/embeddings``. The model's name and its number of dimensions are settings, and an
answer of another length is an error, because its vectors must not be compared with the stored ones.
The key is sent only over https or to this machine; redirects are not followed, so it cannot leak to
another host.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Final
from urllib.parse import urlsplit

import anyio.to_thread

from turntree.core.errors import DatabaseUnavailable, InvalidOperation
from turntree.core.value import value
from turntree.search.embedder import TextKind
from turntree.search.results import Vector

TEXTS_A_REQUEST: Final = 64
TIMEOUT_S: Final = 60.0
# The address comes from a user's config: a server there must not be able to fill our memory.
ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
REASON_CHARS_MAX: Final = 200
_OK: Final = 200
_SERVER_ERROR: Final = 500
_TOO_MANY: Final = 429
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


@value
class OpenAiCompatible:
    """An embedder behind HTTP. See ``embedder``."""

    url: str
    """The base URL, without ``/embeddings``."""
    model: str
    dims: int
    key: str | None = field(default=None, repr=False)
    timeout_s: float = TIMEOUT_S

    @property
    def id(self) -> str:
        """Identifies its vectors; the same model has the same id at any endpoint."""
        return f"{self.model}/{self.dims}"

    async def embed(self, texts: Sequence[str], kind: TextKind) -> list[Vector]:
        """Return the vector of each text.

        Raises:
            InvalidOperation: The endpoint rejects the request, or its answer is not valid.
            DatabaseUnavailable: It does not answer, or reports that it is busy or broken.
        """
        del kind  # The API does not distinguish queries from documents.
        vectors: list[Vector] = []
        for first in range(0, len(texts), TEXTS_A_REQUEST):
            some = list(texts[first : first + TEXTS_A_REQUEST])
            vectors += await anyio.to_thread.run_sync(self._embed, some)
        return vectors

    def _embed(self, texts: list[str]) -> list[Vector]:
        # Some endpoints reject an empty text, and a blank means as little.
        status, body = self._post({"model": self.model, "input": [text or " " for text in texts]})
        if status != _OK:
            raise self._failed(status, body)
        try:
            rows = json.loads(body)["data"]
            vectors = [
                item["embedding"] for item in sorted(rows, key=lambda item: int(item["index"]))
            ]
            return [self._checked(vector) for vector in _exactly(vectors, len(texts))]
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidOperation(
                f"{self._who} did not answer with embeddings: {error!r}"
            ) from error

    def _post(self, document: Mapping[str, Any]) -> tuple[int, bytes]:
        if not self.model or self.dims < 1:
            raise InvalidOperation(
                f"the embedder at {self.url} needs a model and how many numbers its vectors have:"
                " set TURNTREE_EMBEDDER_MODEL and TURNTREE_EMBEDDER_DIMS"
            )
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidOperation(
                f"not the URL of an embedder, such as http://localhost:11434/v1: {self.url}"
            )
        secure = parts.scheme == "https"
        if self.key and not secure and parts.hostname not in _LOOPBACK:
            raise InvalidOperation(f"a key is not sent unencrypted to {parts.hostname}: use https")
        kind = HTTPSConnection if secure else HTTPConnection
        connection = kind(parts.hostname, parts.port, timeout=self.timeout_s)
        headers = {"content-type": "application/json", "accept": "application/json"}
        if self.key:
            headers["authorization"] = f"Bearer {self.key}"
        try:
            path = f"{parts.path.rstrip('/')}/embeddings"
            connection.request("POST", path, json.dumps(document).encode(), headers)
            answer = connection.getresponse()
            body = answer.read(ANSWER_BYTES_MAX + 1)
        except (OSError, HTTPException) as error:
            raise DatabaseUnavailable(f"{self._who} does not answer: {error}") from error
        finally:
            connection.close()
        if len(body) > ANSWER_BYTES_MAX:
            raise InvalidOperation(f"{self._who} answered with more than {ANSWER_BYTES_MAX} bytes")
        return answer.status, body

    def _failed(self, status: int, body: bytes) -> InvalidOperation | DatabaseUnavailable:
        reason = " ".join(body.decode(errors="replace").split())[:REASON_CHARS_MAX]
        if self.key:
            # An endpoint may echo what it was sent, and this goes to a screen or a log.
            reason = reason.replace(self.key, "…")
        message = f"{self._who} answered with {status}: {reason}"
        is_passing = status >= _SERVER_ERROR or status == _TOO_MANY
        return DatabaseUnavailable(message) if is_passing else InvalidOperation(message)

    def _checked(self, vector: Sequence[float]) -> Vector:
        numbers = [float(number) for number in vector]
        if len(numbers) != self.dims:
            raise InvalidOperation(
                f"{self._who} gives {len(numbers)} numbers a text and not {self.dims}:"
                " vectors of different lengths are never compared"
            )
        length = math.sqrt(sum(number * number for number in numbers))
        if not math.isfinite(length) or length == 0:
            raise InvalidOperation(f"{self._who} gave a vector without a direction")
        return tuple(number / length for number in numbers)

    @property
    def _who(self) -> str:
        return f"the embedder {self.model} at {urlsplit(self.url).netloc}"


def _exactly(vectors: list[Any], count: int) -> list[Any]:
    if len(vectors) != count:
        raise ValueError(f"{count} texts and {len(vectors)} vectors")
    return vectors
