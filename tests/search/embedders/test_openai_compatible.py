"""An embedder behind HTTP, against a server on this machine that answers as such endpoints do."""

import json
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import anyio
import pytest

from turntree.boot.open import Settings, find_embedder
from turntree.core.errors import DatabaseUnavailable, InvalidOperation
from turntree.search.embedders.openai_compatible import TEXTS_A_REQUEST, OpenAiCompatible
from turntree.testing.contracts.embedder import EmbedderContract
from turntree.testing.hashing_embedder import HashingEmbedder

pytestmark = pytest.mark.anyio

DIMS = 64


@dataclass(slots=True)
class Endpoint:
    """What a server was asked, and what it answers instead of embeddings, if anything."""

    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    keys: list[str | None] = field(default_factory=list[str | None])
    instead: Callable[[], tuple[int, bytes]] | None = None

    def answer(self, path: str, document: dict[str, Any], key: str | None) -> tuple[int, bytes]:
        self.asked.append(document)
        self.keys.append(key)
        if self.instead is not None:
            return self.instead()
        if path != "/v1/embeddings":
            return 404, b'{"error": "no such path"}'
        vectors = anyio.run(HashingEmbedder(DIMS).embed, document["input"], "document")
        # Lengths are the endpoint's business, and so is the order; the index says which is which.
        data = [
            {"object": "embedding", "index": place, "embedding": [3 * x for x in vector]}
            for place, vector in enumerate(vectors)
        ]
        return 200, json.dumps({"object": "list", "data": data[::-1]}).encode()


@contextmanager
def serving(endpoint: Endpoint) -> Generator[None, None, None]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            document = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status, body = endpoint.answer(self.path, document, self.headers["authorization"])
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("location", f"{endpoint.url}/elsewhere")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    endpoint.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    yield
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def endpoint() -> Generator[Endpoint, None, None]:
    made = Endpoint()
    with serving(made):
        yield made


@pytest.fixture
def embedder(endpoint: Endpoint) -> OpenAiCompatible:
    return OpenAiCompatible(endpoint.url, "bge-toy", DIMS, "sk-secret", timeout_s=5)


class TestOpenAiCompatible(EmbedderContract):
    @pytest.fixture
    def embedder(self, endpoint: Endpoint) -> OpenAiCompatible:
        return OpenAiCompatible(endpoint.url, "bge-toy", DIMS)


async def test_texts_go_in_bounded_requests_and_come_back_in_order(
    embedder: OpenAiCompatible, endpoint: Endpoint
) -> None:
    texts = [f"text number{place}" for place in range(TEXTS_A_REQUEST + 3)]
    vectors = await embedder.embed(texts, "document")
    assert [len(asked["input"]) for asked in endpoint.asked] == [TEXTS_A_REQUEST, 3]
    assert {asked["model"] for asked in endpoint.asked} == {"bge-toy"}
    assert set(endpoint.keys) == {"Bearer sk-secret"}
    expected = await HashingEmbedder(DIMS).embed(texts, "document")
    for got, wanted in zip(vectors, expected, strict=True):
        assert got == pytest.approx(wanted, abs=1e-6)


async def test_the_id_holds_the_length_so_that_two_are_never_mixed(
    embedder: OpenAiCompatible,
) -> None:
    assert embedder.id == "bge-toy/64"
    assert replace(embedder, dims=32).id == "bge-toy/32"
    with pytest.raises(InvalidOperation, match="gives 64 numbers a text and not 32"):
        await replace(embedder, dims=32).embed(["hello"], "query")


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (401, b'{"error": "bad key sk-secret"}', InvalidOperation),
        (429, b"slow down", DatabaseUnavailable),
        (503, b"loading", DatabaseUnavailable),
        (302, b"", InvalidOperation),
        (200, b"not json", InvalidOperation),
        (200, b"{}", InvalidOperation),
        (200, b'{"data": []}', InvalidOperation),
        (200, b'{"data": [{"index": 0, "embedding": "x"}]}', InvalidOperation),
        (200, b'{"data": [{"index": 0, "embedding": null}]}', InvalidOperation),
        (
            200,
            json.dumps({"data": [{"index": 0, "embedding": [0] * DIMS}]}).encode(),
            InvalidOperation,
        ),
    ],
)
async def test_embedder_invalid_response_names_type_not_key(
    embedder: OpenAiCompatible,
    endpoint: Endpoint,
    status: int,
    body: bytes,
    error: type[Exception],
) -> None:
    endpoint.instead = lambda: (status, body)
    with pytest.raises(error) as caught:
        await embedder.embed(["hello"], "query")
    assert "sk-secret" not in str(caught.value)
    assert "sk-secret" not in repr(embedder)
    assert len(endpoint.asked) == 1


async def test_embedder_connection_refused_is_retryable() -> None:
    with pytest.raises(DatabaseUnavailable, match="does not answer"):
        await OpenAiCompatible("http://127.0.0.1:1/v1", "m", 8).embed(["hello"], "query")


async def test_embedder_key_is_not_sent_over_http() -> None:
    with pytest.raises(InvalidOperation, match="unencrypted"):
        await OpenAiCompatible("http://example.com/v1", "m", 8, "k").embed(["hello"], "query")
    for url in ("ftp://example.com", "file:///etc/passwd", "nothing"):
        with pytest.raises(InvalidOperation, match="not the URL of an embedder"):
            await OpenAiCompatible(url, "m", 8).embed(["hello"], "query")


async def test_settings_select_embedder(endpoint: Endpoint) -> None:
    asked = {
        "TURNTREE_EMBEDDER_URL": endpoint.url,
        "TURNTREE_EMBEDDER_MODEL": "bge-toy",
        "TURNTREE_EMBEDDER_DIMS": str(DIMS),
        "TURNTREE_EMBEDDER_KEY": "k",
    }
    settings = Settings.from_environment(asked)
    chosen = find_embedder(settings)
    assert isinstance(chosen, OpenAiCompatible)
    assert (chosen.id, chosen.key) == ("bge-toy/64", "k")
    assert "'k'" not in repr(settings)
    half = find_embedder(Settings.from_environment({"TURNTREE_EMBEDDER_URL": endpoint.url}))
    assert half is not None
    with pytest.raises(InvalidOperation, match="TURNTREE_EMBEDDER_DIMS"):
        await half.embed(["hello"], "query")
