"""The claim: what the conformance page calls met is shown on a path that users take.

    python -m proofs.conformance [--quick]

Every row of the page is met, met in part or left for later. Each test that is cited for a met row
must enter through the command line, the public library or a worker: the proof reads the test, its
fixtures and its helpers, and looks for one of these doors. A test of a value alone, or one that
inserts events by hand, is not evidence that the product does it. The proof reads source only, so
its quick form is the whole one; that the tests pass is what the test suite shows.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from proofs.figures import Proof, run

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/reference/conformance.md"
REQUIREMENTS = 137
MET_TARGET = 95
"""How many are to be met; noted and not judged, because the page says what is missing."""
CITED = re.compile(r"`((?:tests|proofs|src)/[\w/]+\.py(?:::\w+)*)`")
DOORS = frozenset({
    "Call", "CliRunner", "HintRunner", "Project", "Tree", "Workshop", "open_sync", "open_tree",
    "tree", "tree_on", "turntree",
})  # fmt: skip
"""Names that only a test of a whole product uses: the command line, a tree, a worker."""
FAR_MAX = 4
"""How many helpers lie between a test and the door that it enters by."""


@dataclass(frozen=True, slots=True)
class Row:
    """A requirement, and what shows it."""

    name: str
    shown: str

    @property
    def verdict(self) -> str:
        """``met``, ``in part`` or ``later``."""
        if self.shown == "later":
            return "later"
        return "in part" if self.shown.startswith("in part:") else "met"

    @property
    def cited(self) -> list[str]:
        """The tests and proofs that it names."""
        return CITED.findall(self.shown)


def list_rows(page: str) -> Iterator[Row]:
    """Yield the rows of the page's table."""
    for line in page.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 3 and re.fullmatch(r"R\d+", cells[0]):
            yield Row(cells[0], cells[2])


def enters(citation: str) -> bool:
    """Say whether a test or a proof enters through a door of the product."""
    path, *names = citation.split("::")
    module = _read(ROOT / path)
    if not names:
        return bool(module.used & DOORS)
    return _reaches(module, names[-1], FAR_MAX)


@dataclass(frozen=True, slots=True)
class Module:
    """The names that each function of a module uses."""

    functions: dict[str, frozenset[str]]
    used: frozenset[str]
    path: Path


@cache
def _read(path: Path) -> Module:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = {
        node.name: _names(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    return Module(functions, _names(tree), path)


def _names(node: ast.AST) -> frozenset[str]:
    found: set[str] = set()
    for one in ast.walk(node):
        match one:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                found.add(name)
            case ast.ImportFrom(names=names):
                found |= {alias.name for alias in names}
            case _:
                pass
    return frozenset(found)


def _reaches(module: Module, function: str, steps: int) -> bool:
    """Say whether a function, or a helper or fixture that it uses, names a door."""
    used = module.functions.get(function)
    if used is None or steps == 0:
        return False
    if used & DOORS:
        return True
    near = [module, *(_read(one) for one in _list_fixtures(module.path))]
    return any(
        _reaches(place, name, steps - 1)
        for place in near
        for name in used & place.functions.keys()
        if name != function
    )


def _list_fixtures(path: Path) -> list[Path]:
    """Return the files of fixtures that a test may use, up to the folder of all tests."""
    folders = [one for one in path.parents if one.is_relative_to(ROOT / "tests")]
    return [one / "conftest.py" for one in folders if (one / "conftest.py").is_file()]


async def prove(proof: Proof) -> None:
    """Read the page, and every test that it cites."""
    rows = list(list_rows(PAGE.read_text(encoding="utf-8")))
    proof.at_least(
        "requirements on the page", len({row.name for row in rows}), "rows", REQUIREMENTS
    )
    for verdict in ("met", "in part", "later"):
        proof.note(verdict, sum(row.verdict == verdict for row in rows), "requirements")
    proof.note("aim for met", MET_TARGET, "requirements")
    met = [row for row in rows if row.verdict == "met"]
    proof.at_most("met without a test", sum(not row.cited for row in met), "requirements", 0)
    outside = [(row.name, one) for row in met for one in row.cited if not enters(one)]
    for name, citation in outside:
        print(f"{name}: {citation} enters through no door of the product")
    proof.at_most("tests cited for met that enter through no door", len(outside), "tests", 0)


if __name__ == "__main__":
    run(prove, __doc__ or "")
