"""``inbox``: what a person was told, here and over a server."""

import pytest

from tests.cli.conftest import Call


def test_a_person_reads_their_own_notices(turntree: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "nothing is unread" in turntree("inbox").err
    turntree("human", "create", "bob", "--permission", "approve")
    turntree("human", "notify", "bob", "lunch is ready")
    request = turntree("human", "ask", "bob", "deploy it", "--json").document["request"]
    assert "nothing is unread" in turntree("inbox").err
    monkeypatch.setenv("TURNTREE_USER", "bob")
    assert "2 unread notices: turntree inbox" in turntree().err
    shown = turntree("inbox")
    first, second = shown.out.splitlines()
    assert first.startswith("*")
    assert first.endswith("lunch is ready")
    assert "approval is asked for: deploy it" in second
    assert "next: turntree inbox read" in shown.err
    assert f"turntree human approve bob {request}, or reject" in turntree("status").out
    message = turntree("inbox", "--json").documents[1]
    assert "lunch" in turntree("inbox", "read", message["id"][:8]).out
    assert [one["kind"] for one in turntree("inbox", "--json").documents] == ["question"]
    assert turntree("inbox", "read", message["id"]).code == 3
    assert turntree("inbox", "read", "0", "--all").code == 1
    turntree("inbox", "read", "--all")
    assert turntree("status", "--json").document["unread"] == 0
    everything = turntree("inbox", "--all", "--json").documents
    assert [one["kind"] for one in everything] == ["question", "message"]
    assert "nothing was unread" in turntree("inbox", "read").err
