"""The README: its commands print what it shows, and its picture shows its commands."""

import html
import re
from pathlib import Path

import pytest

from tests.cli.hint_runner import HintRunner
from tests.examples.tutorial import (
    README,
    WITH_AN_AGENT,
    Shell,
    read_sections,
    read_session,
    reader,
    type_twice,
)

SCREENS_MAX = 3
SCREEN_LINES = 60
PICTURES = README.parent / "docs/images"
TAG = re.compile(r"<[^>]+>")


@pytest.fixture
def shell(
    tmp_path: Path, conninfo: str, monkeypatch: pytest.MonkeyPatch, hints: HintRunner
) -> Shell:
    """A reader's machine without an agent."""
    reader(tmp_path, conninfo, monkeypatch)
    monkeypatch.setenv("COLUMNS", "88")
    return Shell(
        tmp_path, monkeypatch, lambda words: pytest.fail(f"no agent here: {words}"), hints=hints
    )


def test_readme_without_an_agent_prints_what_it_shows_twice(shell: Shell) -> None:
    sections = read_sections(README)
    type_twice(shell, "".join(sections[it] for it in sections if it not in WITH_AN_AGENT))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_readme_recording_shows_the_first_session(theme: str) -> None:
    picture = PICTURES / f"eight-commands-{theme}.svg"
    lines = TAG.sub("", picture.read_text(encoding="utf-8").replace("</text>", "\n"))
    shown = html.unescape(lines).replace("\xa0", " ")
    for command, _ in read_session(read_sections(README)[""]):
        assert f"$ {command}\n" in shown


def test_readme_fits_on_three_screens() -> None:
    # The text of the picture is folded away.
    text = re.sub(
        r"<details>.*?</details>", "", README.read_text(encoding="utf-8"), flags=re.DOTALL
    )
    assert len(text.splitlines()) <= SCREENS_MAX * SCREEN_LINES
