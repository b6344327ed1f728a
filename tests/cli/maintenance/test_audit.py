"""``audit``: what was granted, used, denied and never used, and a code that says so."""

from pathlib import Path

import anyio
import pytest

from tests.cli.conftest import Call
from turntree.auth.execution_context import ExecutionContext
from turntree.auth.permissions import EVERYTHING, Permissions, right, tools
from turntree.boot.open import Settings, open_tree
from turntree.core.errors import PermissionDenied
from turntree.core.principal import Principal

ANA = ExecutionContext.begin(Principal("human", "ana"), EVERYTHING)


@pytest.fixture
def audited(turntree: Call, conninfo: str) -> Call:
    """A workspace in which an agent used one right, was denied another and left one alone."""

    async def act() -> None:
        async with open_tree(Settings(Path(), conninfo, workspace="tests", user="ana")) as tree:
            session = await tree.sessions.create("main")
            with ANA.delegate(
                Principal("agent", "atlas"), Permissions(tools("read", "git"))
            ).entered():
                await tree.authority.grant(session.id)
                await tree.authority.use(session.id, right("tool", "read"))
                with pytest.raises(PermissionDenied):
                    await tree.authority.use(session.id, right("tool", "exec"))

    anyio.run(act)
    return turntree


def test_nothing_recorded_is_said_and_is_no_fault(turntree: Call) -> None:
    answer = turntree("audit")
    assert (answer.code, answer.out) == (0, "")
    assert "no permission is recorded" in answer.err


def test_findings_end_with_one(audited: Call) -> None:
    answer = audited("audit")
    assert answer.code == 1
    headings = [line for line in answer.lines if line and not line.startswith(" ")]
    assert headings == ["granted", "used", "denied", "never used", "findings"]
    assert "nothing allows tool:exec for agent:atlas" in answer.out
    assert "unused: agent:atlas for human:ana was granted tool:git" in answer.out


def test_a_program_reads_the_same(audited: Call) -> None:
    document = audited("audit", "--json", "--session", "main").document
    assert [row["right"] for row in document["used"]] == ["tool:read"]
    assert [row["right"] for row in document["denied"]] == ["tool:exec"]
    assert [row["right"] for row in document["never_used"]] == ["tool:git"]
    assert [finding["kind"] for finding in document["findings"]] == ["denied", "unused"]


def test_who_and_when_can_be_asked_for(audited: Call) -> None:
    assert audited("audit", "--agent", "vera").code == 0
    assert audited("audit", "--agent", "atlas").code == 1
    assert audited("audit", "--until", "1d").code == 0
    assert audited("audit", "--since", "1d").code == 1
    assert audited("audit", "--session", "nowhere").code == 3
    assert audited("audit", "--since", "whenever").code == 2


def test_only_ascii_where_only_ascii_fits(audited: Call) -> None:
    assert audited("audit", "--ascii").out.isascii()


@pytest.mark.slow
def test_what_happens_to_a_private_session_is_audited(
    turntree: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    turntree("session", "create", "secret")
    turntree("program", "create", "session", "secret", "--private")
    turntree("program", "invite", "secret", "bob")
    turntree("program", "grant", "secret", "carl", "read")
    assert [row["right"] for row in turntree("audit", "--json").document["never_used"]] == [
        "action:invoke"
    ]
    for who in ("bob", "carl", "mallory"):
        monkeypatch.setenv("TURNTREE_USER", who)
        turntree("session", "rename", "secret", "known")
        turntree("show", "secret")
        turntree("show", "secret")
    monkeypatch.setenv("TURNTREE_USER", "mallory")
    assert turntree("audit", "--json").document["denied"] == []
    monkeypatch.setenv("TURNTREE_USER", "bob")
    turntree("cancel", "secret")
    monkeypatch.setenv("TURNTREE_USER", "ana")
    answer = turntree("audit", "--json")
    assert answer.code == 1
    told = answer.document
    assert [(row["who"], row["right"]) for row in told["used"]] == [("human:bob", "action:invoke")]
    assert [(row["who"], row["right"], row["times"]) for row in told["denied"]] == [
        ("human:bob", "action:configure", 1),
        ("human:carl", "action:configure", 1),
        ("human:mallory", "action:read", 1),
    ]
    assert told["never_used"] == []
    assert {finding["kind"] for finding in told["findings"]} == {"denied"}
    turntree("program", "grant", "secret", "dora", "invoke")
    turntree("program", "grant", "secret", "dora", "invoke", "--revoke")
    assert turntree("audit", "--json").document["never_used"] == []
    assert turntree("fsck").code == 0
