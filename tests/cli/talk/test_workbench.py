"""An agent with a sandbox works in a folder: its turns are recorded, rewound, forked, blamed."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Answer, Call
from tests.cli.talker import furnish
from turntree.boot.open import find_sandboxes
from turntree.workbench.folder import INSIDE

FAULT = find_sandboxes()["code"].find_fault()
pytestmark = pytest.mark.skipif(FAULT is not None, reason=f"no sandbox here: {FAULT}")


def steps(when: str, *replies: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    """A rule by which a model calls tools, reply by reply."""
    called = [
        {"tools": [{"tool": name, "args": args} for name, args in reply]} for reply in replies
    ]
    return {"when": when, "replies": [*called, {"text": "Done."}]}


RULES = [
    steps(
        "begin",
        [("fs.write", {"path": "src/add.py", "text": "def add(a, b):\n    return a - b\n"})],
        [("shell.exec", {"cmd": "echo $((6 * 7)) > answer.txt; cat answer.txt"})],
    ),
    steps(
        "mend",
        [
            ("fs.edit", {"path": "src/add.py", "old": "a - b", "new": "a + b"}),
            ("fs.read", {"path": f"{INSIDE}/src/add.py"}),
            ("shell.exec", {"cmd": ["rm", "answer.txt"]}),
            ("fs.list", {"depth": 2}),
            ("fs.grep", {"pattern": "retur[n]", "files": "*.py"}),
        ],
    ),
    steps(
        "escape",
        [("fs.read", {"path": "/etc/passwd"}), ("fs.read", {"path": "../x"}),
         ("fs.write", {"path": ".git/hooks/pre-commit", "text": "x"})],
    ),
]  # fmt: skip


@pytest.fixture
def talk(turntree: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.setenv("TURNTREE_HOME", str(tmp_path / "home"))
    work = tmp_path / "project"
    work.mkdir()
    monkeypatch.chdir(work)
    furnish(turntree, RULES)
    return turntree


def create(talk: Call, *words: str) -> None:
    made = talk("agent", "create", "coder", "--model", "echo", *words)
    assert made.code == 0, made.err


def outputs(talk: Call, sent: Answer) -> list[Any]:
    """Return the results of the calls in a turn."""
    assert sent.code == 0, sent.err
    shown = talk("show", sent.document["turn"], "--json").document
    return [
        part["output"]
        for message in shown["messages"]
        for part in message["parts"]
        if part["kind"] == "tool_result"
    ]


def test_the_calls_of_a_reply_are_made_in_their_order(talk: Call) -> None:
    create(talk, "--sandbox", "folder")
    assert talk("session", "attach", "@(coder)").code == 0
    wrote, ran = outputs(talk, talk("send", "@(coder)", "begin", "--json"))
    assert wrote == {"path": "src/add.py", "bytes": 32, "created": True}
    assert (ran["rc"], ran["stdout"], ran["stderr"]) == (0, "42\n", "")
    edited, seen, removed, listed, found = outputs(talk, talk("send", "@(coder)", "mend", "--json"))
    assert edited == {"path": "src/add.py", "replaced": 1}
    assert seen["text"].endswith("return a + b\n")
    assert removed["rc"] == 0
    assert listed["files"] == ["src/", "src/add.py"]
    assert found == {"hits": ["src/add.py:2:    return a + b"]}
    assert "mend" in talk("blame", "src/add.py:2").out
    assert "begin" in talk("blame", "src/add.py:1").out


def test_what_an_agent_wrote_goes_back_and_forth_and_forks(talk: Call) -> None:
    create(talk, "--sandbox", "folder")
    assert talk("session", "attach", "@(coder)").code == 0
    for text in ("begin", "mend"):
        assert talk("send", "@(coder)", text).code == 0
    assert talk("rewind", "coder:main~1", "--files", "--yes").code == 0
    assert Path("src/add.py").read_text().endswith("a - b\n")
    assert Path("answer.txt").read_text() == "42\n"
    assert talk("undo", "coder:main", "--yes").code == 0
    assert not Path("answer.txt").exists()
    forked = talk("fork", "coder:main~1", "other", "--files", "--json")
    assert forked.code == 0, forked.err


def test_a_tool_leads_nowhere_else(talk: Call) -> None:
    create(talk, "--sandbox", "folder")
    Path(".git/hooks").mkdir(parents=True)
    talk("session", "attach", "@(coder)", ".")
    said = outputs(talk, talk("send", "@(coder)", "escape", "--json"))
    assert ["leads out" in one or "is not changed" in one for one in said] == [True, True, True]
    assert not Path(".git/hooks/pre-commit").exists()


def offered(talk: Call, *words: str) -> tuple[list[str], str]:
    """Return the tools that an agent is offered, and what its request says of the sandbox."""
    sent = talk("send", *(words or ("@(coder)",)), "hello", "--json")
    assert sent.code == 0, sent.err
    context = talk("show", sent.document["turn"], "--context").out
    document = talk("show", sent.document["turn"], "--context", "--json").document
    tools = document["calls"][0]["request"]["tools"]
    (line,) = [one for one in context.splitlines() if one.startswith("sandbox")] or [""]
    return [name for name in tools if not name.startswith("ledger.")], line


def test_without_a_profile_or_a_folder_there_is_no_tool(talk: Call) -> None:
    create(talk)
    talk("session", "attach", "@(coder)", ".")
    assert offered(talk) == ([], "")
    talk("agent", "configure", "coder", "--sandbox", "lab")
    names, why = offered(talk)
    assert (names, "no such sandbox profile; it has folder" in why) == ([], True)
    talk("agent", "configure", "coder", "--sandbox", "folder")
    assert talk("session", "detach", "coder:main").code == 0
    names, why = offered(talk)
    assert (names, "no folder is attached" in why) == ([], True)
    again = talk("session", "detach", "coder:main")
    assert (again.code, "works in no folder" in again.err) == (3, True)


def test_an_agent_gets_the_tools_that_it_lists_and_may_use(talk: Call) -> None:
    create(talk, "--sandbox", "folder", "--function", "fs.*", "--deny", "tool:fs.write")
    talk("session", "attach", "@(coder)", ".")
    names, why = offered(talk)
    assert names == ["fs.edit", "fs.grep", "fs.list", "fs.read"]
    assert f"folder, without network, in {Path.cwd()}" in why


def test_a_profile_of_this_machine_says_what_commands_reach(
    talk: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shelf").mkdir()
    profiles = tmp_path / "profiles.toml"
    profiles.write_text(f'[lab]\nread = ["{tmp_path}/shelf"]\nnetwork = "open"\n')
    monkeypatch.setenv("TURNTREE_SANDBOX_PROFILES", str(profiles))
    create(talk, "--sandbox", "lab", "--function", "shell.exec")
    talk("session", "attach", "@(coder)", ".")
    assert offered(talk) == (["shell.exec"], f"sandbox  lab, with network, in {Path.cwd()}")
    calls = json.loads(talk("show", "coder:main", "--context", "--json").out)["calls"]
    assert "external_write" in calls[0]["effects"]["shell.exec"]
