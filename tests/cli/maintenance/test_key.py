"""``key``: API keys, shown once."""

import pytest

from tests.cli.conftest import Call


def test_a_key_is_created_listed_and_revoked(turntree: Call) -> None:
    assert "next: turntree key create NAME\n" in turntree("key", "list").err
    said = ("key", "create", "ci", "--allow", "action:read", "--agent", "atlas", "--json")
    made = turntree(*said).document
    assert made["key"].startswith("ttk_")
    assert made["scopes"] == {"actions": {"allow": ["read"]}}
    assert made["undo"] == f"turntree key revoke {made['id']}"
    listed = turntree("key", "list")
    assert made["id"] in listed.out
    assert "atlas for human:ana" in listed.out
    assert made["key"] not in listed.out
    assert turntree("key", "revoke", made["id"], "--reason", "it leaked").code == 0
    assert turntree("key", "list").out == ""
    assert "it leaked" in turntree("key", "list", "--all").out
    again = turntree("key", "revoke", made["id"])
    assert again.code == 1
    assert "was revoked already, by human:ana" in again.err
    assert turntree("key", "create", "ci", "--allow", "fs").code == 1
    assert turntree("fsck").code == 0


def test_a_key_can_be_taken_back_at_once(turntree: Call) -> None:
    """The undo is run when the test has ended."""
    made = turntree("key", "create", "ci", "--expires-in", "1")
    assert made.out.startswith("ttk_")
    assert made.err.startswith("undo with: turntree key revoke ")


def test_members_see_their_own_keys(turntree: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    turntree("member", "add", "bob")
    made = turntree("key", "create", "hers", "--json").document
    monkeypatch.setenv("TURNTREE_USER", "bob")
    assert turntree("key", "list", "--json").documents == []
    refused = turntree("key", "revoke", made["id"])
    assert refused.code == 3
    assert refused.err.endswith("next: turntree key list --all\n")
