"""Every Python block in the documentation is a test, and one event loop serves every test.

A block is plain Python, run from top to bottom in the namespace of its document: an example that
waits says `anyio.run(main)`, as its reader would have to. Its `turntree.open()` opens a workspace
that belongs to the document, on a server that belongs to the test process.
"""

import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

from turntree.db.embedded.server import EmbeddedServer

pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser()],
    patterns=["*.md"],
    excludes=[".venv/*", "newsfragments/*", "web/*"],
    fixtures=["document"],
).pytest()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The loop that the drivers are made for; nothing here promises another."""
    return "asyncio"


@pytest.fixture(scope="session")
def documents_server() -> Generator[str, None, None]:
    """A server for the examples of all documents; started when the first of them runs."""
    folder = Path(tempfile.mkdtemp(prefix="turntree-docs-"))
    # The server's own account has to pass through it.
    folder.chmod(0o755)
    server = EmbeddedServer(folder / "home", {"fsync": "off"})
    yield server.ensure_running()
    server.stop(mode="immediate")
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def document(
    documents_server: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """The environment of a reader who has read one document from the top, and nothing else."""
    monkeypatch.setenv("TURNTREE_DATABASE_URL", documents_server)
    monkeypatch.setenv(
        "TURNTREE_WORKSPACE", request.path.relative_to(Path(__file__).parent).as_posix()
    )
    monkeypatch.setenv("TURNTREE_USER", "ana")
    monkeypatch.delenv("TURNTREE_SESSION", raising=False)
