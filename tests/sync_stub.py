"""Writes the types of the synchronous faces from the sources of the asynchronous ones.

``python -m tests.sync_stub``; a test compares.
"""

import ast
import builtins
import copy
import subprocess
import sys
from pathlib import Path

from tests.public_api import (
    Member,
    find_class,
    list_api_facets,
    list_facets,
    list_members,
    read_module,
)

SOURCE = Path(__file__).parent.parent / "src/turntree"
STUB = SOURCE / "boot/sync_tree.pyi"
CLIENT_STUB = SOURCE / "client/sync_client.pyi"
HEAD = '''"""The types of ``{module}``. Generated: ``python -m tests.sync_stub``."""

'''
CLOSING = """
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ..."""
INTERNAL = ("act_as", "with_facets")
ITERATORS = ("AsyncGenerator", "AsyncIterator")


def write_stub() -> str:
    """Return the stub as it should be."""
    facets = list_facets()
    wrapped = {cls: f"_{cls}" for _, cls in facets.values()} | {"Recorder": "_Recorder"}
    imports: dict[str, tuple[str, str]] = {}
    classes = [
        write_class(f"_{cls}", list_members(module, cls), wrapped, imports)
        for module, cls in [*facets.values(), ("turntree.ledger.recorder", "Recorder")]
    ]
    tree = list_members("turntree.api", "Tree")
    methods = write_class("SyncTree", tree, wrapped, imports)
    methods += CLOSING
    opens = read_module("turntree.boot.open").body["open_tree"]
    assert isinstance(opens, ast.AsyncFunctionDef)
    member = Member(opens, read_module("turntree.boot.open"))
    function = copy.deepcopy(opens)
    function.name, function.returns = "open_sync", ast.Name("SyncTree")
    function.decorator_list = []
    note_names(function.args, member, {}, imports)
    shown = write_function(function, member.node, indent="")
    return write_module(STUB, imports, [*classes, methods, shown])


def write_client_stub() -> str:
    """Return the stub of the client as it should be."""
    facets = list_api_facets()
    wrapped = {cls: f"_{cls}" for _, cls in facets.values()}
    imports: dict[str, tuple[str, str]] = {}
    classes = [
        write_class(f"_{cls}", list_members(module, cls), wrapped, imports)
        for module, cls in facets.values()
    ]
    node, module = find_class("turntree.client.client", "Client")
    members = list_members("turntree.client.client", "Client")
    (begins,) = [
        one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"
    ]
    shown = [Member(begins, module), *(one for one in members if one.node.name != "aclose")]
    methods = write_class("SyncClient", shown, wrapped, imports)
    first, rest = methods.split("\n", 1)
    named = "\n".join(f"    {name}: {wrapped[cls]}" for name, (_, cls) in facets.items())
    return write_module(CLIENT_STUB, imports, [*classes, f"{first}\n{named}\n{rest}{CLOSING}"])


def write_module(path: Path, imports: dict[str, tuple[str, str]], parts: list[str]) -> str:
    """Return a stub, formatted: the imports, and what follows them."""
    imports |= {"Self": ("typing", "Self"), "TracebackType": ("types", "TracebackType")}
    lines = [
        f"from {module} import {name}" + ("" if name == word else f" as {word}")
        for word, (module, name) in sorted(imports.items(), key=lambda item: (item[1], item[0]))
        if module
    ]
    text = HEAD.format(module=path.stem) + "\n".join([*lines, "", *parts, ""])
    for command in (["check", "--fix", "--quiet", "--select", "I"], ["format", "--quiet"]):
        text = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(path), "-"],
            input=text, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
    return text


def write_class(
    name: str,
    members: list[Member],
    wrapped: dict[str, str],
    imports: dict[str, tuple[str, str]],
) -> str:
    lines = [f"class {name}:"]
    for member in members:
        if member.node.name in INTERNAL:
            continue
        node = copy.deepcopy(member.node)
        returns = node.returns
        if isinstance(returns, ast.Subscript) and ast.unparse(returns.value) in ITERATORS:
            assert isinstance(returns.slice, ast.expr)
            item = returns.slice.elts[0] if isinstance(returns.slice, ast.Tuple) else returns.slice
            inside = ast.unparse(item)
            if member.is_context_manager:
                imports["AbstractContextManager"] = ("contextlib", "AbstractContextManager")
                text = f"AbstractContextManager[{inside}]"
            else:
                imports["Generator"] = ("collections.abc", "Generator")
                text = f"Generator[{inside}]"
            node.returns = ast.parse(text, mode="eval").body
        note_names(node, member, wrapped, imports)
        node.decorator_list = [ast.Name("property")] if member.is_property else []
        lines.append(write_function(node, member.node, indent="    "))
    return "\n".join(lines)


def note_names(
    node: ast.AST,
    member: Member,
    wrapped: dict[str, str],
    imports: dict[str, tuple[str, str]],
) -> None:
    """Collect the imports of what annotations name; a facet becomes its synchronous twin."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        node.body, node.decorator_list = [], []
        arguments: ast.arguments = node.args
    else:
        assert isinstance(node, ast.arguments)
        arguments = node
    # A stub says that there is a default, not which.
    arguments.defaults = [ast.Constant(...) for _ in arguments.defaults]
    arguments.kw_defaults = [one and ast.Constant(...) for one in arguments.kw_defaults]
    for one in ast.walk(node):
        if not isinstance(one, ast.Name) or hasattr(builtins, one.id):
            continue
        if one.id in wrapped:
            one.id = wrapped[one.id]
            continue
        origin = define(*member.module.origins.get(one.id, ("", one.id)))
        if imports.setdefault(one.id, origin) != origin and origin[0]:
            # Two modules give one name to two things.
            one.id = f"{origin[0].rsplit('.', 1)[-1].title().replace('_', '')}{one.id}"
            imports[one.id] = origin


def define(module: str, name: str) -> tuple[str, str]:
    """Return where a name is defined, which may not be where it is imported from."""
    if not module.startswith("turntree."):
        return module, name
    origin = read_module(module).origins[name]
    return origin if origin == (module, name) else define(*origin)


def write_function(
    node: ast.FunctionDef | ast.AsyncFunctionDef, source: ast.AST, *, indent: str
) -> str:
    assert isinstance(source, ast.FunctionDef | ast.AsyncFunctionDef)
    plain = ast.FunctionDef(
        node.name, node.args, [ast.Expr(ast.Constant(...))], node.decorator_list, node.returns,
        lineno=0,
    )  # fmt: skip
    if sys.version_info >= (3, 12):
        plain.type_params = []
    text = ast.unparse(plain)
    doc = ast.get_docstring(source)
    if doc:
        body = doc.replace("\n", "\n    ")
        end = '"""' if "\n" not in doc else '\n    """'
        text = text.removesuffix("...").rstrip() + f'\n    """{body}{end}'
    return "\n".join(indent + line if line.strip() else "" for line in text.splitlines())


if __name__ == "__main__":
    STUB.write_text(write_stub(), encoding="utf-8")
    CLIENT_STUB.write_text(write_client_stub(), encoding="utf-8")
