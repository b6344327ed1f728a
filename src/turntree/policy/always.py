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
    lines = source.splitlines(keepends=True)
    given = dict(args)
    reason = f"{by} approved it for good"[:REASON_CHARS_MAX]
    first, *more = decide.body
    is_described = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    before = more[0] if is_described and more else first
    name, indent = decide.args.args[0].arg, " " * before.col_offset
    rule = (
        f'{indent}if {name}["tool"] == {tool!r} and {name}["args"] == {given!r}:\n'
        f'{indent}    return {{"decision": "allow", "reason": {reason!r}}}\n'
    )
    test = f'    {{"request": {{"tool": {tool!r}, "args": {given!r}}}, "decision": "allow"}},\n'
    edits = [(before.lineno - 1, 0, rule), (*_end_of(tests, lines), test)]
    # The later one first: what stands before it does not move.
    for line, column, text in sorted(edits, reverse=True):
        head, tail = lines[line][:column], lines[line][column:]
        if text is test:
            lines[line] = _open_list(head) + test + tail
        else:
            lines.insert(line, rule)
    made = "".join(lines)
    # The last test may stand without a comma on a line of its own.
    _find(made)
    return made


def _end_of(tests: ast.List, lines: list[str]) -> tuple[int, int]:
    """Return where the bracket stands that closes the tests: the line and the character."""
    line, end = (tests.end_lineno or 1) - 1, (tests.end_col_offset or 1) - 1
    # The parser counts bytes.
    return line, len(lines[line].encode()[:end].decode())


def _open_list(head: str) -> str:
    """Return the line before that bracket, so that another item may follow."""
    if not head.strip():
        return head
    return head.rstrip() + ("\n" if head.rstrip().endswith((",", "[")) else ",\n")


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
