"""Our hooks in other people's settings: nothing of theirs is lost or moved."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turntree.core.errors import InvalidOperation
from turntree.hooks.settings_text import list_commands, with_hooks, without_hooks

COMMANDS = {"Stop": "sh /h/turntree-hook x end", "SessionStart": "sh /h/turntree-hook x session"}
THEIRS = """{
    "model": "opus",
    "hooks": {
        "Stop": [
            {
                "matcher": "*",
                "hooks": [
                    {
                        "type": "command",
                        "command": "say done"
                    }
                ]
            }
        ],
        "Notification": []
    },
    "zeta": [
        1
    ],
    "alpha": 1
}
"""


def test_our_groups_stand_behind_theirs() -> None:
    document = json.loads(with_hooks(THEIRS, COMMANDS, 5))
    assert [group["hooks"][0]["command"] for group in document["hooks"]["Stop"]] == [
        "say done",
        COMMANDS["Stop"],
    ]
    assert list(document) == ["model", "hooks", "zeta", "alpha"]
    assert list(document["hooks"]) == ["Stop", "Notification", "SessionStart"]


def test_installing_twice_is_installing_once() -> None:
    once = with_hooks(THEIRS, COMMANDS, 5)
    assert with_hooks(once, COMMANDS, 5) == once


def test_a_command_of_an_older_installation_is_replaced() -> None:
    old = with_hooks(THEIRS, {"Stop": "sh /old/turntree-hook x end"}, 5)
    assert list_commands(with_hooks(old, COMMANDS, 5)) == [
        ("Stop", 1, COMMANDS["Stop"]),
        ("SessionStart", 0, COMMANDS["SessionStart"]),
    ]


def test_taking_them_out_leaves_what_was_there_and_its_indentation() -> None:
    assert without_hooks(with_hooks(THEIRS, COMMANDS, 5)) == THEIRS


UNTIDY = """{ "b":1,
    "list": [1,2,   3], "hooks" :{"Stop":[ {"hooks":[{"command":"mine","type":"command"}]} ],
                "Other": []},
    "z" : { "deep":   true } }"""


@pytest.mark.parametrize(
    "text", [UNTIDY, UNTIDY.replace("\n", "\r\n"), '{"a":1}', "{}", '{"hooks": {}, "a":[1,2]}']
)
def test_the_users_own_text_stays_as_it_was_formatted(text: str) -> None:
    grown = with_hooks(text, COMMANDS, 5)
    assert len(list_commands(grown)) == len(COMMANDS)
    rest = iter(grown)
    assert all(sign in rest for sign in text), "something was inserted, and nothing else was done"
    # With another change in between, the old text cannot simply be put back.
    changed = grown.replace('"a":', '"renamed":').replace('"b":', '"renamed":')
    expected = text.replace('"a":', '"renamed":').replace('"b":', '"renamed":')
    assert without_hooks(changed).replace('"hooks": {}, ', "") == expected.replace(
        '"hooks": {}, ', ""
    )


def test_a_name_that_comes_twice_does_no_harm() -> None:
    text = '{"hooks": {"Stop": []}, "hooks": {"Stop": [{"hooks": []}]}, "a": 1, "a": 2}'
    grown = with_hooks(text, COMMANDS, 5)
    assert len(list_commands(grown)) == len(COMMANDS)
    assert json.loads(without_hooks(grown)) == json.loads(text)


def test_settings_that_are_not_there_or_empty_get_hooks_too() -> None:
    for nothing in (None, "", "\n"):
        assert len(list_commands(with_hooks(nothing, COMMANDS, 5))) == len(COMMANDS)
    assert without_hooks(with_hooks(None, COMMANDS, 5)) == "{}\n"


@pytest.mark.parametrize("text", ["// no\n{}", "[]", '{"hooks": []}', '{"hooks": {"Stop": {}}}'])
def test_what_the_tool_itself_would_not_read_is_refused(text: str) -> None:
    with pytest.raises(InvalidOperation):
        with_hooks(text, COMMANDS, 5)


HANDLERS = st.lists(st.fixed_dictionaries({"command": st.text(max_size=5)}), max_size=2)
GROUPS = st.lists(st.fixed_dictionaries({"hooks": HANDLERS}), min_size=1, max_size=3)
EVENTS = st.dictionaries(st.sampled_from(["Stop", "SessionStart", "Other"]), GROUPS, min_size=1)


@given(hooks=EVENTS, other=st.dictionaries(st.text(), st.integers() | st.text() | st.booleans()))
def test_in_and_out_again_changes_nothing(hooks: dict[str, Any], other: dict[str, Any]) -> None:
    document = {**other, "hooks": hooks}
    text = json.dumps(document, ensure_ascii=False)
    cleared = without_hooks(with_hooks(text, COMMANDS, 5))
    assert json.loads(cleared) == document
    assert list(json.loads(cleared)) == list(document)
