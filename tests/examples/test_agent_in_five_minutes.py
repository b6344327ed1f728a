"""The page about an agent of your own, typed with a scripted model in the vendor's place."""

import re
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.cli.hint_runner import HintRunner
from tests.examples.tutorial import ROOT, Shell, reader, type_again, type_session
from turntree.testing.scripted.server import Call, Reply, ScriptedModel

PAGE = ROOT / "docs/tutorial/an-agent-in-five-minutes.md"
PROGRAM = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
REPLIES = (
    Reply("", (Call("note", {"text": "Water the fern on Mondays"}),)),
    Reply("Noted: the fern gets water on Mondays."),
    Reply("", (Call("note", {"text": "Paint everything green"}),)),
    Reply("Done, and noted."),
    Reply("", (Call("forget", {"name": "NOTES.md"}),)),
    Reply("I may not delete files, so NOTES.md is still there."),
)


@pytest.fixture
def shell(
    tmp_path: Path, conninfo: str, monkeypatch: pytest.MonkeyPatch, hints: HintRunner
) -> Generator[Shell, None, None]:
    """A reader's machine with a vendor's key."""
    reader(tmp_path, conninfo, monkeypatch)
    typed = Shell(
        tmp_path, monkeypatch, lambda words: pytest.fail(f"no agent here: {words}"), hints=hints
    )
    with ScriptedModel(REPLIES * 2) as model:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", model.url)
        host = model.url.removeprefix("http://")
        typed.type(f"turntree config add secret_hosts ANTHROPIC_API_KEY@{host}")
        yield typed


def test_the_page_prints_what_it_shows_and_can_be_typed_twice(shell: Shell) -> None:
    start = Path.cwd()
    folder, _, rest = PAGE.read_text(encoding="utf-8").partition("## 1. Tools")
    type_session(shell, folder)
    (program,) = PROGRAM.findall(rest)
    Path("garden.py").write_text(program, encoding="utf-8")
    digests = type_session(shell, rest)
    shell.patch.chdir(start)
    type_again(shell, folder + rest, digests)
