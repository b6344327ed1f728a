"""Each statement stands in the file beside its module, and each one is used."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.source import ROOT, modules, name_of, texts

LOADED = "SQL = load_statements(__file__)"
NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
# Other tools' databases: their importers read these with another driver.
FOREIGN = ROOT / "transcripts" / "importers"
SCHEMA = (ROOT / "db" / "migrations", ROOT / "db" / "functions")


def test_each_file_of_statements_stands_beside_its_module() -> None:
    loading = {path.with_suffix(".sql") for path in modules() if LOADED in texts()[path]}
    assert loading == set(statement_files())


def test_each_statement_that_a_module_names_exists() -> None:
    missing = [
        f"{name_of(path)}: {name}"
        for path, tree in modules().items()
        for table, name in lookups(tree)
        if name not in names_in(file_of(path, tree, table))
    ]
    assert missing == []


def test_each_statement_is_used() -> None:
    words = {word for path in modules() for word in re.findall(r'"(\w+)"', texts()[path])}
    # Repair writes the same two statements for each derived table, by the table's name. An archive
    # reads each kind of line by a statement of its own.
    built = re.compile(
        r"repair_(?:drop|add)_\w+|export_\w+|update_(?:sessions|programs|conversations|participants)"
    )
    unused = [
        f"{name_of(file)}: {name}"
        for file in statement_files()
        for name in names_in(file)
        if name not in words and not built.fullmatch(name)
    ]
    assert unused == []


def statement_files() -> Iterator[Path]:
    for path in texts():
        if path.suffix == ".sql" and not path.is_relative_to(FOREIGN) and path.parent not in SCHEMA:
            yield path


def names_in(file: Path) -> list[str]:
    return NAME.findall(texts()[file])


def lookups(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield each ``SQL["name"]``: by which name the module knows the statements, and their name."""
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=ast.Name(id=table), slice=ast.Constant(value=str(name))) if (
                table == "SQL" or table.endswith("_SQL")
            ):
                if table != "_SQL":
                    yield table, name
            case _:
                pass


def file_of(path: Path, tree: ast.Module, table: str) -> Path:
    """Return the file of the statements that a module knows by a name."""
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), names=names):
                if any(one.name == "SQL" and (one.asname or "SQL") == table for one in names):
                    return ROOT.joinpath(*module.split(".")[1:]).with_suffix(".sql")
            case _:
                pass
    return path.with_suffix(".sql")
