"""The page about conversations, typed with a scripted model in the vendor's place."""

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.cli.hint_runner import HintRunner
from tests.examples.tutorial import ROOT, Shell, reader, type_again, type_session
from turntree.testing.scripted.server import Reply, ScriptedModel

PAGE = ROOT / "docs/tutorial/a-conversation-in-five-minutes.md"
REPLIES = (
    Reply("The notes. I leave them to @[Writer](agent:writer)."),
    Reply('Done: "2.0 is here."'),
    Reply("Then there is time for a test."),
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
    page = PAGE.read_text(encoding="utf-8")
    digests = type_session(shell, page)
    type_again(shell, page, digests)
