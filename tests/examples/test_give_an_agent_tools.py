"""The page about an agent's tools, typed with a scripted model in the vendor's place."""

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.cli.hint_runner import HintRunner
from tests.examples.tutorial import ROOT, Shell, reader, type_again, type_session
from turntree.boot.open import find_sandboxes
from turntree.testing.scripted.server import Call, Reply, Rule, ScriptedModel

FAULT = find_sandboxes()["code"].find_fault()
pytestmark = pytest.mark.skipif(FAULT is not None, reason=f"no sandbox here: {FAULT}")
PAGE = ROOT / "docs/howto/give-an-agent-tools.md"
WRONG = "def add(a, b):\n    return a - b\n\n\nprint(add(2, 3))\n"
RULES = (
    Rule(
        (
            Reply("", (Call("fs.write", {"path": "add.py", "text": WRONG}),)),
            Reply("add.py has the sum."),
        ),
        prompt="Write the sum",
    ),
    Rule(
        (
            Reply(
                "",
                (
                    Call("fs.edit", {"path": "add.py", "old": "a - b", "new": "a + b"}),
                    Call("shell.exec", {"cmd": "python3 add.py"}),
                ),
            ),
            Reply("It printed 5."),
        ),
        prompt="It subtracts",
    ),
    Rule((Reply("Understood."),)),
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
    with ScriptedModel(rules=RULES) as model:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", model.url)
        host = model.url.removeprefix("http://")
        typed.type(f"turntree config add secret_hosts ANTHROPIC_API_KEY@{host}")
        yield typed


@pytest.mark.timeout(300)
def test_the_page_prints_what_it_shows_and_can_be_typed_twice(shell: Shell) -> None:
    page = PAGE.read_text(encoding="utf-8")
    digests = type_session(shell, page)
    type_again(shell, page, digests)
