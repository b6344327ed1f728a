"""Commands that read load what reading needs, and open the ledger once."""

import subprocess
import sys

import pytest

from tests.cli.conftest import Call

READS = ("log", "status", "session list")
HEAVY = (
    "turntree.transcripts.importers", "turntree.search.embedders", "turntree.models.providers",
    "turntree.sandbox.bubblewrap", "turntree.tools.functions",
    "turntree.runs.engines.dbos",
    "turntree.boot.worker", "turntree.runs.runner", "turntree.runs.worker",
    "turntree.transcripts.imports", "turntree.search.service",
    "turntree.programs.kinds", "turntree.testing",
    "filelock", "dbos", "sqlalchemy", "pydantic", "pydantic_ai", "jsonschema",
    "onnxruntime", "numpy", "httpx", "openai", "anthropic", "rich", "opentelemetry",
)  # fmt: skip
BLOCKED = f"""
import sys

HEAVY = {HEAVY!r}


class Blocker:
    def find_spec(self, name, path=None, target=None):
        if any(name == one or name.startswith(one + ".") for one in HEAVY):
            raise ImportError(f"{{name}} is not needed to read")


sys.meta_path.insert(0, Blocker())
from turntree.cli.root import root

root.main(sys.argv[1:])
"""


@pytest.mark.parametrize("command", READS)
def test_read_command_without_heavy_modules_succeeds(turntree: Call, command: str) -> None:
    assert turntree("session", "create", "main").code == 0
    words = [sys.executable, "-c", BLOCKED, *command.split()]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr.count("Traceback")) == (0, 0), ended.stderr
