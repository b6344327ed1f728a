"""The documents: their links lead somewhere, and what they list is what there is."""

import re
import subprocess
from importlib import import_module
from pathlib import Path

import pytest

import turntree
from tests.api_reference import PAGE, write_reference
from tests.cli.hint_runner import make_stubs, parse
from turntree.core.event import KINDS
from turntree.db.sql import load_files

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted(DOCS.rglob("*.md"))]
ESSAYS = [*sorted((DOCS / "explanation").glob("*.md")), DOCS / "life-of-a-turn.md"]

LINK = re.compile(r"\]\((?!https?:)([^)#\s:]+)\)")
TERM = re.compile(r"^\*\*([^*]+)\.\*\*", re.MULTILINE)
TABLE = re.compile(r"CREATE TABLE turntree\.(\w+)")
VARIABLE = re.compile(r"\b(TURNTREE_[A-Z_]+)\b")
BLOCK = re.compile(r"^```(?:console|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^(?:\$ )?(turntree(?: .*)?)$", re.MULTILINE)
USAGE = DOCS / "reference/cli.md"
"""Says how each command is typed, and is written by the command line itself."""
OTHERS = ("turntree checklist ",)
"""Commands that a package of the reader's own brings."""
FILES = ("history.zip", "everything.jsonl")
"""What commands of the same pages wrote before."""

# Where a word of the glossary is a type.
WORDS = {
    "Message": "core.message.Message",
    "Turn": "core.turn.Turn",
    "Run": "core.run.Run",
    "Outcome": "core.turn.Outcome",
    "Seal": "core.turn.seal",
    "Digest": "core.ids.Digest",
    "Manifest": "core.manifest.Manifest",
    "Session": "core.session.Session",
    "Revision": "core.revision.Revision",
    "Compaction": "core.compaction.Compaction",
    "Event": "core.event.Event",
    "Usage": "core.usage.Usage",
    "Principal": "core.principal.Principal",
    "Persona": "auth.persona.Persona",
    "Toolset": "auth.persona.ToolsetConfig",
    "Audit": "auth.audit.Audit",
    "Origin": "core.session.Origin",
    "Erase": "core.turn.erase",
    "Agent role": "core.turn.AgentRole",
    "Source": "core.message.Source",
    "Part": "core.message.Part",
    "Program": "core.program.Program",
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page: Path) -> None:
    links = LINK.findall(page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("essay", ESSAYS, ids=lambda essay: essay.stem)
def test_an_essay_ends_with_what_is_absent(essay: Path) -> None:
    headings = re.findall(r"^## (.+)$", essay.read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[-1] == "What is deliberately absent"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_shell_and_the_command_line_understand_every_command(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stubs, log = make_stubs(tmp_path), tmp_path / "log"
    monkeypatch.chdir(tmp_path)
    for name in FILES:
        Path(name).touch()
    faults: list[str] = []
    for command in list_commands(page):
        log.write_bytes(b"")
        ended = subprocess.run(
            ["bash", "-c", command], capture_output=True, text=True, check=False,
            env={"PATH": f"{stubs}:/usr/bin:/bin", "HINT_LOG": str(log), "LC_ALL": "C.UTF-8"},
        )  # fmt: skip
        records = [record.split("\0") for record in log.read_text().split("\0\n\0")[:-1]]
        typed = [words for _, _, name, *words in records if name == "turntree"]
        refused = next(filter(None, map(parse, typed)), None)
        if not typed or refused is not None:
            faults.append(f"{command}: {refused or ended.stderr}")
    assert faults == []


def list_commands(page: Path) -> list[str]:
    """Return the commands of a page that begin with the product's name."""
    if page == USAGE:
        return []
    blocks = "\n".join(BLOCK.findall(page.read_text(encoding="utf-8")))
    commands: list[str] = COMMAND.findall(re.sub(r"\\\n\s*", "", blocks))
    return [command for command in commands if not command.startswith(OTHERS)]


def test_the_words_of_the_glossary_are_the_words_of_the_code() -> None:
    terms = set(TERM.findall((DOCS / "glossary.md").read_text(encoding="utf-8")))
    assert WORDS.keys() - terms == set()
    for place in WORDS.values():
        module, _, name = place.rpartition(".")
        assert hasattr(import_module(f"turntree.{module}"), name), place


def test_the_api_reference_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == write_reference(), "python -m tests.api_reference"


def test_every_public_name_is_in_the_api_reference() -> None:
    page = PAGE.read_text(encoding="utf-8")
    names = set(turntree.__all__) - {"SyncTree", "Tree"}
    assert sorted(name for name in names if f"### turntree.{name}\n" not in page) == []


def test_every_kind_of_event_is_documented() -> None:
    page = (DOCS / "reference/events.md").read_text(encoding="utf-8")
    assert [kind for kind in KINDS if f"`{kind}`" not in page] == []


def test_every_table_is_documented() -> None:
    page = (DOCS / "reference/storage.md").read_text(encoding="utf-8")
    tables = [name for _, text in load_files("migrations") for name in TABLE.findall(text)]
    assert tables
    assert [table for table in tables if f"`{table}`" not in page] == []


def test_every_setting_is_documented() -> None:
    page = (DOCS / "reference/configuration.md").read_text(encoding="utf-8")
    source = ROOT / "src/turntree"
    used = {
        name
        for folder in ("boot", "cli")
        for path in (source / folder).rglob("*.py")
        for name in VARIABLE.findall(path.read_text(encoding="utf-8"))
    }
    assert used
    assert sorted(name for name in used if f"`{name}`" not in page) == []


def test_every_module_is_on_the_map() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    source = ROOT / "src/turntree"
    modules = [
        path
        for path in source.rglob("*.py")
        # The command line says itself which commands there are.
        if path.name != "__init__.py" and path.relative_to(source).parts[0] != "cli"
    ]
    assert [path.stem for path in modules if f"`{path.stem}`" not in mapped(page)] == []


def mapped(page: str) -> str:
    """Return the map with every path in it shortened to the name of its module."""
    return re.sub(r"`(?:\w+/)*(\w+)(?:\.py)?`", r"`\1`", page)
