"""A policy that also allows one call: the policy in force, one rule and one test."""

from importlib import resources
from typing import Any

import pytest

from turntree.core.errors import InvalidOperation
from turntree.policy.always import allow_always
from turntree.policy.policy import read_policy

DEFAULT = resources.files("turntree.policy").joinpath("default_policy.py").read_text("utf-8")
ABOVE = '''"""Ask about everything."""

TESTS = [{"request": {"tool": "x"}, "decision": "ask"}]


def decide(request):
    return {"decision": "ask", "reason": "it asks"}
'''
NO_LAST_COMMA = ABOVE.replace("TESTS = [{", "TESTS = [\n    {").replace("}]", "}  # asks\n]")
TABS = ABOVE.replace("    return", "\treturn")
# Line ends for Python's strings, not for its parser.
STRANGE_LINE_ENDS = ABOVE.replace("everything", "every\u2028thing").replace("TESTS", "#\x0c\nTESTS")
ARGS: dict[str, Any] = {"command": "rm -r 'build'\n", "n": 1.5, "deep": [None, True, {"a": "ü"}]}


@pytest.mark.parametrize(
    "source",
    [DEFAULT, ABOVE, NO_LAST_COMMA, TABS, STRANGE_LINE_ENDS],
    ids=["default", "tests above", "no last comma", "tabs", "strange line ends"],
)
def test_allow_always_adds_a_rule_and_a_test(source: str) -> None:
    made = allow_always(source, "shell.exec", ARGS, by="human:ana")
    scope: dict[str, Any] = {}
    exec(compile(made, "policy.py", "exec"), scope)  # noqa: S102 - it is what is tested.
    allowed = scope["decide"]({"tool": "shell.exec", "args": ARGS})
    assert allowed == {"decision": "allow", "reason": "human:ana approved it for good"}
    assert scope["TESTS"][-1]["request"] == {"tool": "shell.exec", "args": ARGS}
    policy = read_policy(made)
    assert len(policy.tests) == len(read_policy(source).tests) + 1
    twice = allow_always(made, "fs.write", {}, by="human:ana")
    assert len(read_policy(twice).tests) == len(policy.tests) + 1


def test_allow_always_of_other_arguments_asks_as_before() -> None:
    made = allow_always(ABOVE, "shell.exec", ARGS, by="human:ana")
    scope: dict[str, Any] = {}
    exec(compile(made, "policy.py", "exec"), scope)  # noqa: S102 - it is what is tested.
    other = scope["decide"]({"tool": "shell.exec", "args": {"command": "rm -r /"}})
    assert other["decision"] == "ask"


@pytest.mark.parametrize(
    "source",
    [
        "export default 1 {",
        "x = 1",
        'TESTS = []\ndef decide(request): return "allow"\n',
        "TESTS = [({})]\ndef decide(request):\n    return 1\n",
    ],
)
def test_allow_always_of_a_source_that_it_cannot_extend_is_refused(source: str) -> None:
    with pytest.raises(InvalidOperation, match=r"extend .* by hand"):
        allow_always(source, "x", {}, by="human:ana")
