"""The shape of the source: docstrings, imports, exceptions and the public API."""

import ast
import re
from collections.abc import Iterator

import turntree
from tests.architecture.source import FUNCTION, is_command, modules, name_of, texts

PUBLIC_NAMES_MAX = 60

# Spelt in halves, so that a search for unfinished work does not find this line.
UNFINISHED = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" + "XX")) + r")\b")


def test_modules_have_docstrings() -> None:
    assert [name_of(path) for path, tree in modules().items() if not ast.get_docstring(tree)] == []


BROAD_CATCHES = {
    "agents/task_supervisor.py": "One task's unexpected error must not stop the other tasks.",
    "boot/worker.py": "A library that raises when it is imported must not stop the other models.",
    "runs/engines/retry.py": "A wake-up that is given up is lost, and its session never answers.",
    "runs/session_loop.py": "An unexpected error becomes a failed run instead of silence.",
    "runs/tool_calls.py": "Whatever a tool raises is its result, which the model reads.",
    "runs/worker.py": "Without its heartbeat a working worker would be taken for dead.",
    "tools/isolation.py": "Code of others may raise anything, on our loop or in its own thread.",
    "tools/mcp/connection.py": "Whatever a server's library raises ends its connection, no other.",
}
"""The modules that may catch every error, and why. Everywhere else an error has a name."""


def test_broad_catches_are_those_with_a_reason() -> None:
    catching = {name_of(path) for path, tree in modules().items() if [*broad_catches(tree)]}
    assert sorted(catching) == sorted(BROAD_CATCHES)


def test_broad_catches_are_found_in_every_disguise() -> None:
    for source in (
        "try:\n    f()\nexcept:\n    pass",
        "try:\n    f()\nexcept (ValueError, Exception):\n    pass",
        "with contextlib.suppress(BaseException):\n    f()",
        "await asyncio.gather(f(), return_exceptions=True)",
        "class A:\n    def __exit__(self, *_):\n        return True",
    ):
        assert len([*broad_catches(ast.parse(source))]) == 1, source
    assert [*broad_catches(ast.parse("try:\n    f()\nexcept OSError:\n    pass"))] == []


def test_source_has_no_unfinished_work() -> None:
    assert [
        f"{name_of(path)}:{number}"
        for path, text in texts().items()
        for number, line in enumerate(text.splitlines(), start=1)
        if UNFINISHED.search(line)
    ] == []


def test_public_api_is_sorted_and_small() -> None:
    assert turntree.__all__ == sorted(turntree.__all__)
    assert len(turntree.__all__) <= PUBLIC_NAMES_MAX
    assert [name for name in turntree.__all__ if not hasattr(turntree, name)] == []


LAZY = {
    "boot/open.py",
    "api.py",
    "runs/engines/lazy.py",
    "db/embedded/account.py",
    "db/database.py",
    "db/embedded/server.py",
    "ledger/store.py",
}
"""Modules that every command loads, and that import what few commands need when it is needed."""


def test_imports_are_at_module_level() -> None:
    # A command imports what it needs when it is called, so that `--help` stays fast.
    assert [
        f"{name_of(path)}:{line}"
        for path, tree in modules().items()
        if not is_command(path) and name_of(path) not in LAZY
        for line in local_imports(tree)
    ] == []


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
            case ast.Call(keywords=keywords) if any(
                keyword.arg == "return_exceptions" for keyword in keywords
            ):
                yield node.lineno
            case ast.FunctionDef(name="__exit__") | ast.AsyncFunctionDef(name="__aexit__"):
                for inner in ast.walk(node):
                    if isinstance(inner, ast.Return) and inner.value is not None:
                        yield inner.lineno
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
