"""The source of the package, read and parsed once per process."""

import ast
from functools import cache
from pathlib import Path

import turntree

ROOT = Path(turntree.__file__).parent
COMMANDS_FOLDER = "cli"
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def texts() -> dict[Path, str]:
    """Return the text of every Python and SQL file."""
    paths = [path for suffix in ("py", "sql") for path in sorted(ROOT.rglob(f"*.{suffix}"))]
    return {path: path.read_text(encoding="utf-8") for path in paths}


@cache
def modules() -> dict[Path, ast.Module]:
    """Return the syntax tree of every module."""
    return {path: ast.parse(text) for path, text in texts().items() if path.suffix == ".py"}


def name_of(path: Path) -> str:
    """Return a file's path relative to the package."""
    return path.relative_to(ROOT).as_posix()


def is_command(path: Path) -> bool:
    """Return whether a file belongs to the command line."""
    return path.relative_to(ROOT).parts[0] == COMMANDS_FOLDER
