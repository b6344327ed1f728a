"""Every Python block in the documentation is a test, and one event loop serves every test.

A block is plain Python, run from top to bottom in the namespace of its document: an example that
waits says `anyio.run(main)`, as its reader would have to.
"""

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser()],
    patterns=["*.md"],
    excludes=[".venv/*", "newsfragments/*", "web/*"],
).pytest()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The loop that the drivers are made for; nothing here promises another."""
    return "asyncio"
