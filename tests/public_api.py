"""Reads the public API from the source: what ``turntree`` exports, and the facets of a tree.

From the source and not from the loaded classes, because a signature there has the words that its
author chose: ``Json`` and not what ``Json`` is made of.
"""

import ast
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Module:
    """A module of the package, with the origin of each name in it."""

    name: str
    body: dict[str, ast.stmt]
    origins: dict[str, tuple[str, str]]
    """Of a name: the module that it comes from, and its name there."""


@dataclass(frozen=True, slots=True)
class Member:
    """A method or a property, and the module in which it is defined."""

    node: Function
    module: Module

    @property
    def is_property(self) -> bool:
        return any(word in ("property", "cached_property") for word in decorators(self.node))

    @property
    def is_context_manager(self) -> bool:
        return "asynccontextmanager" in decorators(self.node)


def decorators(node: Function) -> list[str]:
    return [ast.unparse(one) for one in node.decorator_list]


@cache
def read_module(name: str) -> Module:
    spec = find_spec(name)
    assert spec is not None, name
    assert spec.origin is not None, name
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    body: dict[str, ast.stmt] = {}
    origins: dict[str, tuple[str, str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for one in node.names:
                origins.setdefault(one.asname or one.name, (node.module, one.name))
    for node in tree.body:
        names: list[str] = []
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                names = [node.name]
            case ast.Assign(targets=[ast.Name(id)]) | ast.AnnAssign(target=ast.Name(id)):
                names = [id]
            case _:
                pass
        for defined in names:
            body[defined] = node
            origins[defined] = (name, defined)
    return Module(name, body, origins)


def find_class(module: str, name: str) -> tuple[ast.ClassDef, Module]:
    """Return a class, followed to the module that defines it."""
    read = read_module(module)
    node = read.body.get(name)
    if isinstance(node, ast.ClassDef):
        return node, read
    return find_class(*read.origins[name])


def list_members(module: str, name: str) -> list[Member]:
    """Return the public methods and properties of a class, inherited ones too, in order."""
    node, read = find_class(module, name)
    found: dict[str, Member] = {}
    for base in node.bases:
        origin = read.origins.get(ast.unparse(base))
        if origin is not None and origin[0].startswith("turntree.") and origin[1] != "Facet":
            found |= {member.node.name: member for member in list_members(*origin)}
    for one in node.body:
        if isinstance(one, FUNCTIONS) and (one.name == "__call__" or one.name[0] != "_"):
            found[one.name] = Member(one, read)
    return list(found.values())


def list_facets() -> dict[str, tuple[str, str]]:
    """Return the facets of a tree: by name, the module and the name of the class."""
    facets: dict[str, tuple[str, str]] = {}
    for member in list_members("turntree.api", "Tree"):
        if member.is_property:
            assert isinstance(member.node.returns, ast.Name), member.node.name
            facets[member.node.name] = member.module.origins[member.node.returns.id]
    return facets


def list_api_facets() -> dict[str, tuple[str, str]]:
    """Return the facets of a client: by name, the module and the name of the class."""
    node, module = find_class("turntree.client.client", "Client")
    (begins,) = [
        one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"
    ]
    return {
        target.attr: module.origins[call.id]
        for one in begins.body
        for target, call in _list_made(one)
        if call.id in module.origins
    }


def _list_made(statement: ast.stmt) -> list[tuple[ast.Attribute, ast.Name]]:
    """Return the attribute that a statement makes by a call, and what it calls."""
    match statement:
        case ast.Assign(
            targets=[ast.Attribute(attr=name) as target], value=ast.Call(func=ast.Name() as call)
        ) if call.id.endswith("Api") and not name.startswith("_"):
            return [(target, call)]
        case _:
            return []
