"""A worker that is killed while its agent waits for another one, and one that serves only one
session at a time."""

from typing import Any

import pytest

from tests.cli.conftest import Call
from tests.cli.talk.test_program_tools import result_in
from tests.cli.talk.test_worker import END_S, told, wait_until, working
from tests.cli.talker import furnish

pytestmark = pytest.mark.slow

RULES: list[dict[str, Any]] = [
    {
        "when": "manage",
        "replies": [
            {"tools": [{"tool": "helper", "args": {"message": "a long one"}}]},
            {"text": "Done."},
        ],
    },
    {"when": "long", "replies": [{"text": "word " * 60}]},
]


def test_a_call_of_an_agent_outlives_its_worker_and_is_made_once(turntree: Call) -> None:
    furnish(turntree, RULES, "--set", "word_delay_s=0.05")
    turntree("agent", "create", "helper", "--model", "echo")
    turntree("agent", "create", "atlas", "--model", "echo", "--tool", "helper")
    # One session at a time: the agent that waits must not keep the other one from answering.
    with working("--name", "bee", "--concurrency", "1") as bee:
        told(bee)
        run = turntree("send", "@(atlas)", "manage", "--no-wait", "--json").document["run"]
        wait_until(lambda: len(turntree("status", "--json").document["runs"]) > 1)
        bee.kill()
        bee.wait(END_S)
    with working("--name", "ant", "--concurrency", "1") as ant:
        told(ant)
        wait_until(lambda: not turntree("status", "--json").document["runs"])
    result = result_in(turntree, run)
    assert (result["status"], result["output"]["text"].split()[:2]) == ("ok", ["word", "word"])
    turns = "SELECT count(*) AS n FROM turntree.turns"
    assert turntree("sql", turns, "--json").document == {"n": 2}
    assert turntree("fsck").code == 0
