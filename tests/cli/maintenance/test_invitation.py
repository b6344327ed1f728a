"""``invitation``: codes that let people in."""

import pytest

from tests.cli.conftest import Call


def test_an_invitation_is_made_listed_and_accepted(
    turntree: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "next: turntree invitation create NAME\n" in turntree("invitation", "list").err
    made = turntree("invitation", "create", "bob@example.org", "--role", "guest", "--json").document
    assert made["undo"] == f"turntree invitation revoke {made['id']}"
    assert made["code"].startswith("tti_")
    listed = turntree("invitation", "list")
    assert made["id"] in listed.out
    assert made["code"] not in listed.out
    monkeypatch.setenv("TURNTREE_USER", "bob")
    assert turntree("invitation", "list").out == "", "only admins see them"
    accepted = turntree("invitation", "accept", made["code"])
    assert accepted.out == "bob is now a member of the workspace (role: guest)\n"
    assert accepted.err == "undo with: turntree member remove bob\n"
    again = turntree("invitation", "accept", made["code"])
    assert again.code == 1
    assert "was accepted already" in again.err
    monkeypatch.setenv("TURNTREE_USER", "ana")
    assert turntree("invitation", "list").out == ""
    (ended,) = turntree("invitation", "list", "--all", "--json").documents
    assert (ended["state"], ended["accepted_by"]) == ("accepted", "human:bob")
    assert turntree("fsck").code == 0


def test_an_invitation_can_be_taken_back_at_once(turntree: Call) -> None:
    """The undo is run when the test has ended."""
    made = turntree("invitation", "create", "carl")
    assert made.err.startswith("undo with: turntree invitation revoke ")


def test_a_revoked_invitation_lets_no_person_in(
    turntree: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = turntree("invitation", "create", "bob", "--json").document
    assert turntree("invitation", "revoke", made["id"]).out == f"{made['id']} is revoked\n"
    again = turntree("invitation", "revoke", made["id"])
    assert again.code == 1
    assert again.err.endswith("next: turntree invitation list --all\n")
    monkeypatch.setenv("TURNTREE_USER", "bob")
    assert turntree("invitation", "accept", made["code"]).code == 1
    assert turntree("invitation", "accept", "nonsense").code == 4
    assert turntree("invitation", "create", "carl").code == 4
