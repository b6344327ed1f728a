"""The numbers of the house style. They may be lowered, never raised."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import turntree

FUNCTION_LINES_MAX = 70
FUNCTION_LINES_LONG = 50
FUNCTIONS_LONG_SHARE_MAX = 0.03
MODULE_LINES_MAX = 500
PUBLIC_NAMES_MAX = 60

ROOT = Path(turntree.__file__).parent
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
FILES = [path for suffix in ("py", "sql") for path in sorted(ROOT.rglob(f"*.{suffix}"))]

# Spelt in halves, so that a search for unfinished work does not find this line.
UNFINISHED = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" + "XX")) + r")\b")


def test_functions_fit_on_a_screen() -> None:
    assert [name for name, lines in functions() if lines > FUNCTION_LINES_MAX] == []


def test_few_functions_are_long() -> None:
    sizes = list(functions())
    long = [name for name, lines in sizes if lines > FUNCTION_LINES_LONG]
    assert len(long) <= FUNCTIONS_LONG_SHARE_MAX * len(sizes), long


def test_modules_fit_in_a_sitting() -> None:
    assert [
        place(path)
        for path in modules()
        if len(path.read_text(encoding="utf-8").splitlines()) > MODULE_LINES_MAX
    ] == []


def test_every_module_says_what_it_knows() -> None:
    assert [place(path) for path, tree in modules().items() if not ast.get_docstring(tree)] == []


def test_no_error_is_caught_without_its_name() -> None:
    assert [
        f"{place(path)}:{line}" for path, tree in modules().items() for line in broad_catches(tree)
    ] == []


def test_nothing_is_left_for_later() -> None:
    assert [
        f"{place(path)}:{number}"
        for path in FILES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if UNFINISHED.search(line)
    ] == []


def test_the_public_api_is_deliberate() -> None:
    assert turntree.__all__ == sorted(turntree.__all__)
    assert len(turntree.__all__) <= PUBLIC_NAMES_MAX
    assert [name for name in turntree.__all__ if not hasattr(turntree, name)] == []


def test_imports_stand_at_the_top() -> None:
    # The command line alone may load a command when it is called.
    assert [
        f"{place(path)}:{line}"
        for path, tree in modules().items()
        if path.relative_to(ROOT).parts[0] != "cli"
        for line in local_imports(tree)
    ] == []


def place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def modules() -> dict[Path, ast.Module]:
    """Return every module of the package, parsed by whoever asks first: not by every process."""
    paths = sorted(ROOT.rglob("*.py"))
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def functions() -> Iterator[tuple[str, int]]:
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, FUNCTION):
                assert node.end_lineno is not None
                yield f"{place(path)}:{node.name}", node.end_lineno - node.lineno + 1


def broad_catches(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        match node:
            case ast.ExceptHandler(type=None):
                yield node.lineno
            case ast.ExceptHandler(type=ast.expr() as caught) if is_broad(caught):
                yield node.lineno
            case ast.Call(func=ast.Name(id="suppress") | ast.Attribute(attr="suppress")):
                if any(is_broad(argument) for argument in node.args):
                    yield node.lineno
            case _:
                pass


def is_broad(caught: ast.expr) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id in {"Exception", "BaseException"}
        for node in ast.walk(caught)
    )


def local_imports(tree: ast.Module) -> Iterator[int]:
    for function in ast.walk(tree):
        if not isinstance(function, FUNCTION):
            continue
        for node in ast.walk(function):
            match node:
                case ast.Import(names=names):
                    ours = any(name.name.split(".")[0] == "turntree" for name in names)
                case ast.ImportFrom(module=module, level=level):
                    ours = level > 0 or (module or "").split(".")[0] == "turntree"
                case _:
                    continue
            if ours:
                yield node.lineno
