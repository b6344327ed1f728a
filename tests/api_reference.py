"""Writes the API reference from the source: ``python -m tests.api_reference``; a test compares."""

import ast
import copy
import inspect
import re
from pathlib import Path

import turntree
from tests.public_api import (
    FUNCTIONS,
    Function,
    Module,
    find_class,
    list_facets,
    list_members,
    read_module,
)

PAGE = Path(__file__).parent.parent / "docs/reference/api.md"
HEAD = """# Python API

This page is generated: `python -m tests.api_reference`. It lists what `import turntree` offers, and
the facets of a tree. Whatever is not listed here may change in any release.

Every method that starts with `async` is awaited on a tree of `turntree.open()`. On a tree of
`turntree.open_sync()` the same method returns its result; an asynchronous iterator becomes a
plain one.
"""
WIDTH = 88
INTERNAL = ("with_facets",)
REASON = re.compile(r"^ {4}(\S[^:]*):\s*(.*)$")


def write_reference() -> str:
    """Return the page as it should be."""
    exports = read_module("turntree").origins
    exports["open"] = ("turntree.boot.open", "open_tree")
    errors, values, functions = [], [], []
    for name in turntree.__all__:
        thing = getattr(turntree, name)
        if inspect.isclass(thing) and issubclass(thing, BaseException):
            errors.append(name)
        elif inspect.isfunction(thing):
            functions.append(name)
        elif name not in ("Tree", "SyncTree"):
            values.append(name)
    lines = [HEAD, "## Functions", ""]
    for name in functions:
        module, defined = exports[name]
        if name == "open_sync":
            # Its signature is that of ``open``, as its types say.
            lines += [
                "### turntree.open_sync",
                "",
                "```py",
                "def open_sync(…) -> SyncTree",
                "```",
                "",
            ]
            lines += [
                "Takes the arguments of `turntree.open` and returns the same tree for a program",
                "without `async`: a context manager, which can also be closed with `close()`.",
                "",
            ]
            continue
        node = read_module(module).body[defined]
        if isinstance(node, ast.Assign):
            # Another name for a function of the same module.
            node = read_module(module).body[ast.unparse(node.value)]
        assert isinstance(node, FUNCTIONS), name
        lines += write_function(node, f"turntree.{name}", name)
    lines += ["## Tree", "", *write_doc(find_class("turntree.api", "Tree")[0])]
    facets = list_facets()
    for member in list_members("turntree.api", "Tree"):
        if member.node.name not in facets and member.node.name not in INTERNAL:
            lines += write_function(member.node, f"tree.{member.node.name}")
    tree = {member.node.name: member.node for member in list_members("turntree.api", "Tree")}
    for facet, origin in facets.items():
        lines += [f"## tree.{facet}", "", *write_doc(tree[facet])]
        for member in list_members(*origin):
            name = "" if member.node.name == "__call__" else f".{member.node.name}"
            lines += write_function(member.node, f"tree.{facet}{name or '()'}")
    lines += ["## Values", ""]
    for name in values:
        lines += write_value(name, *exports[name])
    lines += ["## Errors", ""]
    for name in errors:
        node, _ = find_class(*exports[name])
        bases = [ast.unparse(base) for base in node.bases]
        lines += [
            f"### turntree.{name}",
            "",
            f"Is a {' and a '.join(f'`{one}`' for one in bases)}.",
            "",
        ]
        lines += write_doc(node)
    return "\n".join(lines).rstrip() + "\n"


def write_function(node: Function, heading: str, shown_as: str | None = None) -> list[str]:
    """Return a heading, the signature, and what the docstring says."""
    plain = copy.deepcopy(node)
    plain.name = shown_as or node.name
    plain.args.args = [one for one in plain.args.args if one.arg != "self"]
    decorated = [ast.unparse(one) for one in node.decorator_list]
    given = split_arguments(plain.args)
    prefix = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    if "asynccontextmanager" in decorated:
        prefix = "async with"
    returns = "" if node.returns is None else f" -> {ast.unparse(node.returns)}"
    if "asynccontextmanager" in decorated and isinstance(node.returns, ast.Subscript):
        # It yields what the block gets.
        assert isinstance(node.returns.slice, ast.Tuple), heading
        returns = f" as {ast.unparse(node.returns.slice.elts[0])}"
    line = f"{prefix} {plain.name}({', '.join(given)}){returns}"
    if "property" in decorated:
        line = f"{plain.name}: {returns.removeprefix(' -> ')}"
    if len(line) > WIDTH:
        line = "\n".join(
            [f"{prefix} {plain.name}(", *(f"    {one}," for one in given), f"){returns}"]
        )
    return [f"### {heading}", "", "```py", line, "```", "", *write_doc(node)]


def split_arguments(arguments: ast.arguments) -> list[str]:
    """Return the text of each argument."""
    plain = [*arguments.posonlyargs, *arguments.args]
    values = [*[None] * (len(plain) - len(arguments.defaults)), *arguments.defaults]
    pieces = [write_argument(*pair) for pair in zip(plain, values, strict=True)]
    if arguments.vararg is not None:
        pieces.append(f"*{ast.unparse(arguments.vararg)}")
    elif arguments.kwonlyargs:
        pieces.append("*")
    named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    pieces += [write_argument(*pair) for pair in named]
    if arguments.kwarg is not None:
        pieces.append(f"**{ast.unparse(arguments.kwarg)}")
    return pieces


def write_argument(argument: ast.arg, default: ast.expr | None) -> str:
    text = ast.unparse(argument)
    return text if default is None else f"{text} = {ast.unparse(default)}"


def write_value(name: str, module: str, defined: str) -> list[str]:
    """Return what a value is, and its fields with what the source says about each."""
    lines = [f"### turntree.{name}", ""]
    read = read_module(module)
    node = read.body[defined]
    if not isinstance(node, ast.ClassDef):
        return [*lines, "```py", ast.unparse(node).replace("'", '"'), "```", ""]
    lines += write_doc(node)
    rows = list_fields(node, read)
    for field, kind, about in rows:
        lines.append(f"- `{field}: {kind}`" + (f": {about}" if about else ""))
    if rows:
        lines.append("")
    return lines


def list_fields(node: ast.ClassDef, read: Module) -> list[tuple[str, str, str]]:
    rows: list[tuple[str, str, str]] = []
    for one, after in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            about = ""
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                about = plain_text(inspect.cleandoc(str(after.value.value))).replace("\n", " ")
            rows.append((one.target.id, ast.unparse(one.annotation), about))
        elif isinstance(one, ast.FunctionDef) and one.name[0] != "_":
            decorated = [ast.unparse(it) for it in one.decorator_list]
            about = plain_text(ast.get_docstring(one) or "").partition("\n")[0]
            returns = "" if one.returns is None else ast.unparse(one.returns)
            if "property" in decorated:
                rows.append((one.name, returns, about))
    return [row for row in rows if row[0][0] != "_"]


def write_doc(node: ast.ClassDef | Function) -> list[str]:
    """Return a docstring as Markdown; errors become a list."""
    doc, _, raises = (ast.get_docstring(node) or "").partition("\nRaises:\n")
    lines = [plain_text(doc.strip()), ""] if doc.strip() else []
    items: list[str] = []
    for line in raises.splitlines():
        if match := REASON.match(line):
            items.append(f"- raises `{match[1]}`: {plain_text(match[2])}")
        elif line.strip():
            items[-1] += f" {plain_text(line.strip())}"
    return [*lines, *items, ""] if items else lines


def plain_text(text: str) -> str:
    return text.replace("``", "`")


if __name__ == "__main__":
    PAGE.write_text(write_reference(), encoding="utf-8")
