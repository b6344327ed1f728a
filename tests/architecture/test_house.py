"""The papers of the house: what they must say, and what no file may name."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
ADRS = sorted((ROOT / "docs/adr").glob("*.md"))
FRAGMENTS = sorted((ROOT / "newsfragments").glob("*.md"))
CONFORMANCE = ROOT / "docs/reference/conformance.md"

ADR_SECTIONS = ["Context", "Decision", "Consequences", "What would change our mind"]
FRAGMENT_NAME = re.compile(r"(\d+|\+[\w-]+)\.(feature|fix|breaking|doc)\.md")
SHOWN_BY = re.compile(r"`((?:tests|proofs)/[^`]+)`")
LATER = "later"
IN_PART = "in part: "
COUNTED = re.compile(r"Of (\d+) requirements, this version meets (\d+) in full and (\d+) in part")

# Made by machines, or not committed.
NOT_OURS = {"build", "dist", "node_modules", "__pycache__", "uv.lock"}
OURS_WITH_A_DOT = {
    ".ci",
    ".editorconfig",
    ".github",
    ".gitignore",
    ".pre-commit-config.yaml",
}
# Spelt in pieces, so that this file does not name them either.
UNNAMEABLE = [
    "../" + "shared",
    "/" + "work/",
    "pypi" + ".org",
    "python" + "hosted.org",
    "npm" + "js.org",
    "npm" + "js.com",
    "crates" + ".io",
]


def test_no_file_names_a_machine_or_a_registry() -> None:
    assert [
        f"{path.relative_to(ROOT)}:{number}"
        for path in project_files(ROOT)
        for number, line in enumerate(path.read_bytes().splitlines(), start=1)
        if any(name.encode() in line for name in UNNAMEABLE)
    ] == []


def test_decisions_are_numbered_without_a_gap() -> None:
    assert [path.name[:5] for path in ADRS] == [f"{n:04}-" for n in range(1, len(ADRS) + 1)]


@pytest.mark.parametrize("adr", ADRS, ids=lambda path: path.stem)
def test_a_decision_says_what_would_change_our_mind(adr: Path) -> None:
    lines = adr.read_text(encoding="utf-8").splitlines()
    assert [line.removeprefix("## ") for line in lines if line.startswith("## ")] == ADR_SECTIONS


@pytest.mark.parametrize("fragment", FRAGMENTS, ids=lambda path: path.name)
def test_a_news_fragment_has_a_kind_and_says_something(fragment: Path) -> None:
    assert FRAGMENT_NAME.fullmatch(fragment.name)
    assert fragment.read_text(encoding="utf-8").strip()


def test_every_requirement_is_shown_or_said_to_come_later() -> None:
    rows = list(conformance_rows())
    assert rows
    assert [
        requirement for requirement, shown in rows if shown != LATER and not SHOWN_BY.search(shown)
    ] == []


def test_the_requirements_are_counted_rightly() -> None:
    shown = [shown for _, shown in conformance_rows()]
    later = sum(cell == LATER for cell in shown)
    in_part = sum(cell.startswith(IN_PART) for cell in shown)
    counts = COUNTED.search(CONFORMANCE.read_text(encoding="utf-8"))
    assert counts is not None
    assert tuple(map(int, counts.groups())) == (len(shown), len(shown) - later - in_part, in_part)


def test_what_shows_a_requirement_exists() -> None:
    assert [
        f"{requirement}: {reference}"
        for requirement, shown in conformance_rows()
        for reference in SHOWN_BY.findall(shown)
        if not exists(reference)
    ] == []


def project_files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        hidden = path.name.startswith(".") and path.name not in OURS_WITH_A_DOT
        if hidden or path.name in NOT_OURS or path.is_symlink():
            continue
        if path.is_dir():
            yield from project_files(path)
        else:
            yield path


def conformance_rows() -> Iterator[tuple[str, str]]:
    """Yield each requirement with the cell that says what shows it."""
    for line in CONFORMANCE.read_text(encoding="utf-8").splitlines():
        if not line.startswith("|"):
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        is_rule = all(set(cell) <= set("-:") for cell in cells)
        if is_rule or cells[0].lower() == "requirement":
            continue
        assert len(cells) == 3, line
        yield cells[0], cells[2]


def exists(reference: str) -> bool:
    path, *names = reference.split("::")
    file = ROOT / path
    if not file.is_file():
        return False
    if path.startswith("proofs/"):
        return not names
    wanted = names[-1].split("[")[0] if names else ""
    return wanted in functions_of(file)


@cache
def functions_of(file: Path) -> frozenset[str]:
    """Return the names of a file's functions; many a requirement is shown by one file."""
    return frozenset(
        node.name
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
