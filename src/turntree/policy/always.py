"""A policy that also allows what a person has just approved: a proposal, never a hidden rule.

It is the policy in force with one more rule, which allows the same tool with the same arguments,
and one more test.
"""

import ast
from collections.abc import Mapping

from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation

REASON_CHARS_MAX = 200


def allow_always(source: str, tool: str, args: Mapping[str, Json], *, by: str) -> str:
    """Return the source of a Python policy with a rule that allows one call.

    Raises:
        InvalidOperation: The source is not a Python policy with ``decide`` and ``TESTS``.
    """
    decide, tests = _find(source)
    # As bytes: the parser counts them, and a text has more line ends than it knows.
    lines = source.encode().splitlines(keepends=True)
    given = dict(args)
    reason = f"{by} approved it for good"[:REASON_CHARS_MAX]
    first, *more = decide.body
    is_described = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    before = more[0] if is_described and more else first
    name, indent = decide.args.args[0].arg, lines[before.lineno - 1][: before.col_offset]
    if indent.strip():
        raise InvalidOperation("decide is written in one line: extend the policy by hand")
    rule = [
        f'if {name}["tool"] == {tool!r} and {name}["args"] == {given!r}:\n',
        f'    return {{"decision": "allow", "reason": {reason!r}}}\n',
    ]
    case = f'{{"request": {{"tool": {tool!r}, "args": {given!r}}}, "decision": "allow"}}'
    edits = [
        (before.lineno - 1, 0, b"".join(indent + line.encode() for line in rule)),
        (*_end_of(tests), (",\n    " if tests.elts else "\n    ").encode() + case.encode()),
    ]
    # The later one first: what stands before it does not move.
    for line, column, text in sorted(edits, reverse=True):
        lines[line] = lines[line][:column] + text + lines[line][column:]
    made = b"".join(lines).decode()
    if len(_find(made)[1].elts) != len(tests.elts) + 1:
        raise InvalidOperation("TESTS is written in an unusual way: extend the policy by hand")
    return made


def _end_of(tests: ast.List) -> tuple[int, int]:
    """Return where another test follows: after the last one, or after the opening bracket."""
    if tests.elts:
        return (tests.elts[-1].end_lineno or 1) - 1, tests.elts[-1].end_col_offset or 0
    return tests.lineno - 1, tests.col_offset + 1


def _find(source: str) -> tuple[ast.FunctionDef, ast.List]:
    try:
        module = ast.parse(source)
    except SyntaxError as error:
        raise InvalidOperation("the policy in force is not Python: extend it by hand") from error
    decide = [
        one for one in module.body if isinstance(one, ast.FunctionDef) and one.name == "decide"
    ]
    tests = [
        one.value
        for one in module.body
        if isinstance(one, ast.Assign)
        and isinstance(one.value, ast.List)
        and [target.id for target in one.targets if isinstance(target, ast.Name)] == ["TESTS"]
    ]
    if len(decide) != 1 or len(tests) != 1 or not decide[0].args.args:
        raise InvalidOperation("the policy in force has no decide or TESTS: extend it by hand")
    return decide[0], tests[0]
