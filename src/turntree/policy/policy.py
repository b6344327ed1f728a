"""A policy: source that decides about tool calls, its docstring and its tests.

Pure. Nothing of a policy is run here: what it says of itself is read from its source.
"""

import ast
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal, cast, get_args

import orjson

from turntree.core.canonical import Json, canonical, digest_bytes
from turntree.core.errors import Hint, InvalidOperation, NotCanonical
from turntree.core.ids import Digest
from turntree.core.value import value
from turntree.policy.decision import VERDICTS, Verdict
from turntree.sandbox.code import LANGUAGES, Language

PolicyLane = Literal["monty", "process"]
"""Where a policy runs: in the Monty interpreter, or as a program in the sandbox."""
LANES: Final[tuple[PolicyLane, ...]] = get_args(PolicyLane)
SOURCE_BYTES_MAX: Final = 65_536
TESTS_MAX: Final = 1000
_EXAMPLE: Final = Hint("policy.show_active")
_SUFFIXES: Final[Mapping[str, Language]] = {
    ".py": "python", ".js": "javascript", ".mjs": "javascript", ".ts": "typescript",
}  # fmt: skip
_SCRIPT_DOC: Final = re.compile(r"\A\s*/\*\*?(.*?)\*/", re.DOTALL)
_SCRIPT_TESTS: Final = re.compile(
    r"^const TESTS\b[^=]*= *(\[.*?^\]);?\s*$", re.DOTALL | re.MULTILINE
)
_SCRIPT_DECIDE: Final = re.compile(r"^(?:const|let|var|function) +decide\b", re.MULTILINE)


@value
class PolicyTest:
    """A request, and the verdict that the policy has to give."""

    request: Mapping[str, Json]
    """The members of a request that matter; the others have their defaults."""
    verdict: Verdict
    name: str = ""


@value
class Policy:
    """The source of a policy, and what it says of itself."""

    source: str
    language: Language = "python"
    docstring: str = ""
    tests: tuple[PolicyTest, ...] = ()
    lane: PolicyLane = "monty"

    @property
    def digest(self) -> Digest:
        """The digest of the source."""
        return digest_bytes(self.source.encode())


def language_of(name: str) -> Language:
    """Return the language of a file, by the end of its name.

    Raises:
        InvalidOperation: It is none in which a policy can be written.
    """
    for suffix, language in _SUFFIXES.items():
        if name.endswith(suffix):
            return language
    *known, last = _SUFFIXES
    ends = f"{', '.join(known)} or {last}"
    raise InvalidOperation(f"{name[-40:]!r} is not a policy: the name must end in {ends}")


@lru_cache(64)
def read_policy(
    source: str, language: Language = "python", lane: PolicyLane | None = None
) -> Policy:
    """Return the policy that a source is.

    Raises:
        InvalidOperation: It defines no ``decide``, lacks a docstring or a test, or is too long.
    """
    if language not in LANGUAGES:
        raise InvalidOperation(f"a policy cannot be written in {language!r}")
    try:
        size = len(source.encode())
    except UnicodeEncodeError as error:
        raise InvalidOperation("the policy is not text") from error
    if size > SOURCE_BYTES_MAX:
        raise InvalidOperation(f"a policy has at most {SOURCE_BYTES_MAX} bytes")
    docstring, tests = _describe(source) if language == "python" else _describe_script(source)
    # An escape in the docstring can name what no text of the database may have.
    if any(one == "\0" or "\ud800" <= one <= "\udfff" for one in docstring) or "\0" in source:
        raise InvalidOperation("the policy has a NUL character or half of a surrogate pair")
    if not docstring:
        raise InvalidOperation(
            "the policy has no docstring that says what it allows", hint=_EXAMPLE
        )
    if not tests:
        raise InvalidOperation("the policy has no tests: it needs a list TESTS", hint=_EXAMPLE)
    if language != "python" and lane == "monty":
        raise InvalidOperation(f"{language} runs as a process, not in Monty")
    chosen: PolicyLane = lane or ("monty" if language == "python" else "process")
    return Policy(source, language, docstring, tests, chosen)


@lru_cache(64)
def mark_returns(source: str) -> str:
    """Return a Python policy whose ``decide`` also says on which line it decided.

    Each value that it returns becomes a pair of the line and the value. Lines keep their numbers.
    """
    # As bytes: a text has more line ends than Python's parser knows.
    lines = source.encode().splitlines(keepends=True)
    module = _parse(source)
    for node in module.body:
        # The tests are read without running them, and to build their list takes most of the time.
        if isinstance(node, ast.Assign) and _is_tests(node) and node.end_lineno is not None:
            lines[node.lineno - 1] = b"TESTS = ()\n"
            for number in range(node.lineno, node.end_lineno):
                lines[number] = b"\n"
    values = [node.value for node in _list_returns(_find_decide(module)) if node.value]
    # From the end: what is inserted must not move where the next insertion goes.
    for returned in reversed(values):
        start, end, end_at = returned.lineno - 1, returned.end_lineno, returned.end_col_offset
        assert end is not None, "ast.parse sets it"
        assert end_at is not None, "ast.parse sets it"
        lines[end - 1] = lines[end - 1][:end_at] + b"))" + lines[end - 1][end_at:]
        opened = f"({returned.lineno}, (".encode()
        lines[start] = (
            lines[start][: returned.col_offset] + opened + lines[start][returned.col_offset :]
        )
    return b"".join(lines).decode()


def _is_tests(node: ast.Assign) -> bool:
    target, value = node.targets[0], node.value
    # What it shares a line with would go too.
    stands_alone = node.col_offset == 0 and value.end_lineno != node.lineno
    return isinstance(target, ast.Name) and target.id == "TESTS" and stands_alone


def _parse(source: str) -> ast.Module:
    try:
        return ast.parse(source, "policy.py")
    except SyntaxError as error:
        raise InvalidOperation(f"line {error.lineno} of the policy: {error.msg}") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise InvalidOperation("the policy cannot be parsed") from error


def _find_decide(module: ast.Module) -> ast.FunctionDef:
    for node in module.body:
        if isinstance(node, ast.FunctionDef) and node.name == "decide":
            return node
        if isinstance(node, ast.AsyncFunctionDef) and node.name == "decide":
            raise InvalidOperation("decide is an async function, and a policy cannot wait")
    raise InvalidOperation("the policy defines no function decide(request)", hint=_EXAMPLE)


def _list_returns(function: ast.FunctionDef) -> list[ast.Return]:
    """Return the returns of a function in order, without those of functions in it."""
    returns: list[ast.Return] = []
    waiting: list[ast.AST] = [*function.body]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(node, ast.Return):
            returns.append(node)
        waiting.extend(ast.iter_child_nodes(node))
    return sorted(returns, key=lambda node: (node.lineno, node.col_offset))


def _describe(source: str) -> tuple[str, tuple[PolicyTest, ...]]:
    module = _parse(source)
    _find_decide(module)
    for node in module.body:
        match node:
            case ast.Assign(targets=[ast.Name("TESTS")], value=literal):
                pass
            case ast.AnnAssign(target=ast.Name("TESTS"), value=ast.expr() as literal):
                pass
            case _:
                continue
        try:
            return ast.get_docstring(module) or "", _read_tests(ast.literal_eval(literal))
        except (ValueError, TypeError) as error:
            raise InvalidOperation("TESTS is not a literal list") from error
    return ast.get_docstring(module) or "", ()


def _describe_script(source: str) -> tuple[str, tuple[PolicyTest, ...]]:
    if _SCRIPT_DECIDE.search(source) is None:
        raise InvalidOperation("the policy defines no function decide(request)", hint=_EXAMPLE)
    doc, tests = _SCRIPT_DOC.search(source), _SCRIPT_TESTS.search(source)
    said = "" if doc is None else doc.group(1)
    docstring = "\n".join(line.strip().removeprefix("*").strip() for line in said.splitlines())
    if tests is None:
        return docstring.strip(), ()
    try:
        return docstring.strip(), _read_tests(orjson.loads(tests.group(1)))
    except orjson.JSONDecodeError as error:
        raise InvalidOperation("TESTS is not a list of JSON values") from error


def _read_tests(given: object) -> tuple[PolicyTest, ...]:
    if not isinstance(given, list | tuple):
        raise InvalidOperation("TESTS is not a list")
    entries = cast("Sequence[object]", given)
    if len(entries) > TESTS_MAX:
        raise InvalidOperation(f"a policy has at most {TESTS_MAX} tests")
    return tuple(_read_test(entry, number) for number, entry in enumerate(entries, start=1))


def _read_test(entry: object, number: int) -> PolicyTest:
    match entry:
        case {"request": Mapping(), "decision": str(word)} if word in VERDICTS:
            test = cast("Mapping[str, Any]", entry)
            members: Mapping[str, Any] = test["request"]
            name = test.get("name", "")
        case {"request": Mapping(), "decision": object()}:
            given, known = cast("Mapping[str, object]", entry)["decision"], ", ".join(VERDICTS)
            raise InvalidOperation(f"test {number}: {given!r:.40} is not one of {known}")
        case _:
            raise InvalidOperation(f"test {number} has no request and decision", hint=_EXAMPLE)
    try:
        canonical(members)
    except NotCanonical as error:
        raise InvalidOperation(f"test {number}: {error}") from error
    verdict: Verdict = next(one for one in VERDICTS if one == word)
    return PolicyTest(dict(members), verdict, str(name) or f"test {number}")
