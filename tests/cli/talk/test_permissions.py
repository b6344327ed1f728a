"""Who acts in a run, what its tools may do and read, and what the record says about it."""

import os
import subprocess
from collections.abc import Callable, Generator
from typing import Any, LiteralString

import psycopg
import pytest

from tests.cli.conftest import Call
from tests.cli.talker import furnish
from turntree.auth.execution_context import current
from turntree.core.principal import Principal

ASKED: dict[str, Any] = {
    "when": "look",
    "replies": [
        {"text": "", "tools": [{"tool": "look", "args": {}}, {"tool": "leave", "args": {}}]},
        {"text": "done"},
    ],
}
TOOLS = "tests.cli.talk.test_permissions:GIVEN"
HIDDEN = "SURELY_HIDDEN"
LISTED = "SURELY_LISTED"
NEVER_PASSED_ON = [
    "key.manage", "member.manage", "policy.activate", "trigger.manage", "webhook.manage",
]  # fmt: skip
ACTS = "agent:atlas"


def look() -> dict[str, Any]:
    """Tell what a tool finds around it."""
    chain: list[str] = []
    principal: Principal | None = current().principal
    while principal is not None:
        chain.append(str(principal))
        principal = principal.on_behalf_of
    child = subprocess.run(["/usr/bin/env"], capture_output=True, text=True, check=True).stdout
    # 1 if the shell has no such variable.
    by_system = os.waitstatus_to_exitcode(os.system(f'test -n "${HIDDEN}"'))  # noqa: S605
    return {
        "chain": chain,
        "names": sorted(name for name in os.environ if name.startswith("SURELY_")),
        "child": sorted(line for line in child.splitlines() if line.startswith("SURELY_")),
        "listed": os.environ.get(LISTED),
        "hidden": os.environ.get(HIDDEN),
        "hidden_in_bytes": os.environb.get(HIDDEN.encode()) is not None,
        "hidden_by_system": by_system == 0,
    }


def leave() -> str:
    """Say goodbye."""
    return "bye"


GIVEN = [look, leave]


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HIDDEN, "hidden-1")
    monkeypatch.setenv(LISTED, "listed-1")


@pytest.fixture
def ask(
    turntree: Call, conninfo: str
) -> Generator[Callable[[LiteralString], list[Any]], None, None]:
    """Return the rows of a query."""
    del turntree
    with psycopg.connect(conninfo, autocommit=True) as connection:
        yield lambda query: connection.execute(query).fetchall()


def found(turntree: Call, session: str) -> dict[str, Any]:
    """Return what the tool ``look`` found in the last turn of a session."""
    shown = turntree("show", session, "--json").document
    results = [
        part
        for message in shown["messages"]
        for part in message["parts"]
        if part["kind"] == "tool_result"
    ]
    (document,) = [part["output"] for part in results if isinstance(part["output"], dict)]
    return dict(document)


def test_a_tool_sees_who_acts_and_the_credentials_of_its_agent_only(
    turntree: Call, ask: Callable[[LiteralString], list[Any]]
) -> None:
    furnish(turntree, [ASKED])
    answer = turntree(
        "agent", "create", "atlas", "--soul", "You are calm.", "--model", "echo",
        "--credential", LISTED, "--deny", "tool:leave",
    )  # fmt: skip
    assert answer.code == 0, answer.err
    turntree("session", "create", "atlas:main", "--owner", "atlas")
    assert turntree("send", "atlas:main", "look", "--tools", TOOLS).code == 0
    assert found(turntree, "atlas:main") == {
        "chain": [ACTS, "human:ana"],
        "names": [LISTED],
        # The tool has its value; the record does not.
        "child": [f"{LISTED}=[redacted]"],
        "listed": "[redacted]",
        "hidden": None,
        "hidden_in_bytes": False,
        "hidden_by_system": False,
    }
    assert ask(
        "SELECT role, toolset_name, permissions_granted, permissions_used FROM ledger.turns"
    ) == [
        (
            "unified",
            "full",
            {
                "tools": {"allow": ["*"], "deny": ["leave"]},
                "credentials": {"allow": [LISTED]},
                "actions": {"allow": ["*"], "deny": NEVER_PASSED_ON},
            },
            [f"credential:{LISTED}", "tool:look"],
        )
    ]
    assert ask("SELECT persona_id FROM ledger.sessions WHERE label = 'atlas:main'") == [("atlas",)]
    audited = turntree("audit", "--session", "atlas:main")
    assert f"{ACTS} for human:ana" in audited.out
    assert f"credential:{LISTED}" in audited.out
    assert turntree("fsck").code == 0


def test_a_person_who_may_configure_an_agent_lists_no_credential_of_its_owner(
    turntree: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    furnish(turntree, [ASKED])
    turntree("agent", "create", "atlas", "--model", "echo")
    assert turntree("program", "grant", "atlas", "human:bob", "configure").code == 0
    monkeypatch.setenv("TURNTREE_USER", "bob")
    changed = turntree("agent", "configure", "atlas", "--credential", HIDDEN)
    assert changed.code == 0, changed.err
    monkeypatch.setenv("TURNTREE_USER", "ana")
    assert turntree("send", "@(atlas)", "look", "--tools", TOOLS).code == 0
    told = found(turntree, "atlas:main")
    assert (told["names"], told["child"], told["hidden"]) == ([], [], None)


def test_without_an_agent_the_built_in_one_acts_and_has_no_credentials(turntree: Call) -> None:
    furnish(turntree, [ASKED])
    assert turntree("send", "main", "look", "--tools", TOOLS).code == 0
    told = found(turntree, "main")
    assert (told["chain"], told["names"]) == (["agent:assistant", "human:ana"], [])
    assert os.environ[HIDDEN] == "hidden-1"


def issued(turntree: Call, *options: str) -> str:
    """Return a token of the agent ``bee``."""
    document = turntree("token", "issue", "cli", "--agent", "bee", *options, "--json").document
    return str(document["token"])


@pytest.mark.parametrize(
    ("limits", "ran"),
    [
        (("--deny", "tool:look"), ["tool:leave"]),
        (("--allow", "tool:look"), ["tool:look"]),
        (("--allow", "tool:l*", "--deny", "tool:look"), ["tool:leave"]),
    ],
)
def test_a_message_may_narrow_what_its_run_may_do(
    turntree: Call,
    ask: Callable[[LiteralString], list[Any]],
    limits: tuple[str, ...],
    ran: list[str],
) -> None:
    furnish(turntree, [ASKED])
    turntree("agent", "create", "atlas", "--model", "echo")
    sent = turntree("send", "@(atlas)", "look", "--tools", TOOLS, *limits)
    assert sent.code == 0, sent.err
    assert ask("SELECT permissions_used FROM ledger.turns") == [(ran,)]


def test_a_limit_that_is_no_permission_is_refused_before_anything_is_sent(turntree: Call) -> None:
    furnish(turntree, [ASKED])
    refused = turntree("send", "main", "look", "--deny", "look")
    assert refused.code == 1
    assert "'look' is not a permission: write KIND:NAME" in refused.err
    assert turntree("log", "--all", "--json").documents == []


def test_a_message_that_is_sent_with_a_token_runs_with_its_rights_only(turntree: Call) -> None:
    furnish(turntree, [ASKED])
    turntree("agent", "create", "atlas", "--model", "echo", "--credential", LISTED)
    turntree("session", "create", "atlas:main", "--owner", "atlas")
    token = issued(turntree, "--allow", "tool:look")
    assert turntree("send", "atlas:main", "look", "--tools", TOOLS, "--token", token).code == 0
    told = found(turntree, "atlas:main")
    assert (told["chain"], told["names"]) == ([ACTS, "agent:bee", "human:ana"], [])
    audited = turntree("audit", "--session", "atlas:main")
    assert f"{ACTS} for agent:bee for human:ana" in audited.out
    assert "tool:leave" in audited.out


def test_a_revoked_token_is_refused_by_every_command(
    turntree: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    furnish(turntree)
    made = turntree("token", "issue", "cli", "--agent", "bee", "--json").document
    turntree("session", "create", "plans", "--private")
    monkeypatch.setenv("TURNTREE_TOKEN", str(made["token"]))
    assert turntree("log", "plans").code == 3
    monkeypatch.delenv("TURNTREE_TOKEN")
    assert turntree("token", "revoke", str(made["nonce"])).code == 0
    monkeypatch.setenv("TURNTREE_TOKEN", str(made["token"]))
    for words in (("status",), ("log",), ("send", "main", "hello"), ("audit",)):
        refused = turntree(*words)
        assert refused.code == 4, words
        assert "was revoked" in refused.err
    other = turntree("log", "--token", "nonsense")
    assert (other.code, "Traceback" in other.err) == (4, False)
