"""What has to hold on systems that we have not got here: Windows, macOS, musl."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.foreign_system import MODULES
from tests.architecture.source import modules, name_of

ROOT = Path(__file__).parent.parent.parent
TIMEOUT_S = 110


def test_commands_and_help_without_posix_modules_load() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "tests.architecture.foreign_system"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr


def test_posix_modules_at_import_time_are_optional() -> None:
    assert [
        f"{name_of(path)}: {name}"
        for path, tree in modules().items()
        for name in imported(tree)
        if name in MODULES
    ] == []


def test_optional_imports_are_told_from_required_ones() -> None:
    source = (
        "import os, pwd\ntry:\n    import fcntl\nexcept ImportError:\n    pass\nfrom grp import x"
    )
    assert list(imported(ast.parse(source))) == ["os", "pwd", "grp"]


def imported(tree: ast.Module) -> Iterator[str]:
    """Yield what a module cannot be imported without."""
    for node in tree.body:
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=str() as name, level=0):
                yield name
            case _:
                pass
