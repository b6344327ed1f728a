"""What a policy says of itself is read from its source, without running it."""

import ast
from pathlib import Path

import pytest

from turntree.core.errors import InvalidOperation
from turntree.policy import default_policy
from turntree.policy.policy import language_of, mark_returns, read_policy

SOURCE = '''"""Allow everything."""

TESTS = [{"request": {"tool": "a"}, "decision": "allow", "name": "a runs"}]


def decide(request):
    if request["tool"] == "b":
        return "deny"
    return {
        "decision": "allow",
    }
'''
SCRIPT = """/**
 * Allow everything.
 */
const TESTS = [
  {"request": {"tool": "a"}, "decision": "allow"}
];
function decide(request) { return "allow"; }
"""


def test_read_policy_returns_docstring_and_tests() -> None:
    policy = read_policy(SOURCE)
    assert (policy.docstring, policy.lane) == ("Allow everything.", "monty")
    assert [(test.name, test.verdict) for test in policy.tests] == [("a runs", "allow")]


def test_read_policy_of_a_script_returns_docstring_and_tests() -> None:
    policy = read_policy(SCRIPT, "javascript")
    assert (policy.docstring, policy.lane, len(policy.tests)) == ("Allow everything.", "process", 1)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ('"""A."""\nTESTS = []\n', "defines no function decide"),
        (SOURCE.replace('"""Allow everything."""', ""), "no docstring"),
        (SOURCE.replace("TESTS", "OTHERS"), "no tests"),
        (SOURCE.replace('[{"request"', '[dict()] + [{"request"'), "not a literal list"),
        (
            SOURCE.replace('"decision": "allow", "name"', '"decision": "perhaps", "name"'),
            "test 1: 'perhaps' is not one of allow, deny, ask, rewrite",
        ),
        (SOURCE.replace('{"tool": "a"}', "{{}: 1}"), "not a literal list"),
        (SOURCE.replace("everything.", r"\x00"), "NUL"),
        (SOURCE.replace("everything.", r"\ud800"), "surrogate"),
        (SOURCE.replace("def decide", "async def decide"), "cannot wait"),
        (SOURCE + "def f(:\n", "line 12 of the policy"),
        (SOURCE + "#" * 70_000, "at most 65536 bytes"),
        (SOURCE + "\ud800", "not text"),
    ],
)
def test_read_policy_without_what_it_needs_is_refused(source: str, message: str) -> None:
    with pytest.raises(InvalidOperation, match=message):
        read_policy(source)


def test_mark_returns_keeps_lines_and_syntax() -> None:
    source = Path(default_policy.__file__).read_text()
    marked = mark_returns(source)
    assert len(marked.splitlines()) == len(source.splitlines())
    ast.parse(marked)


def test_mark_returns_of_a_function_inside_leaves_it_alone() -> None:
    inner = "def decide(request):\n    def f():\n        return 1\n    return f() # é\n"
    assert mark_returns(inner) == inner.replace("f() #", "(4, (f())) #")


def test_language_of_another_file_is_refused() -> None:
    assert language_of("policy.ts") == "typescript"
    with pytest.raises(InvalidOperation, match=r"must end in \.py, \.js, \.mjs or \.ts"):
        language_of("policy.rb")
