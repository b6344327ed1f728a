"""Every published example runs, and runs again in the same environment: a reader tries twice."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from turntree.testing.scripted.server import Reply, ScriptedModel

ROOT = Path(__file__).parent.parent.parent
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = [
    page
    for page in (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")))
    if BLOCK.search(page.read_text(encoding="utf-8"))
]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SCRIPT_TIMEOUT_S = 60


def program_of(page: Path) -> str:
    """Return the blocks of a page as one program, each at the line where the page has it."""
    text = page.read_text(encoding="utf-8")
    program = ""
    for block in BLOCK.finditer(text):
        start = text.count("\n", 0, block.start(1))
        program += "\n" * (start - program.count("\n")) + block[1]
    return program


@pytest.fixture
def reader(conninfo: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The machine of a reader, who has a database of their own and is in an empty folder."""
    for name in [name for name in os.environ if name.startswith("TURNTREE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TURNTREE_DATABASE_URL", conninfo)
    monkeypatch.setenv("TURNTREE_HOME", str(tmp_path / "kept"))
    monkeypatch.setenv("TURNTREE_USER", "ana")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_examples_of_a_page_run_twice(page: Path, reader: None) -> None:
    program = compile(program_of(page), str(page), "exec")
    for _ in range(2):
        exec(program, {"__name__": "__main__"})  # noqa: S102


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_runs_twice(example: Path, reader: None) -> None:
    for answer in ("Three degrees.", "Still three degrees."):
        with ScriptedModel([Reply(answer)]) as model:
            names = {"OPENAI_API_KEY": "scripted", "OPENAI_BASE_URL": f"{model.url}/v1"}
            ended = subprocess.run(
                [sys.executable, str(example)],
                env={**os.environ, **names}, capture_output=True, text=True, check=False,
                timeout=SCRIPT_TIMEOUT_S,
            )  # fmt: skip
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"{answer}\n", "")
