"""``member``: who belongs to the workspace."""

import pytest
from click.testing import CliRunner, Result

from tests.cli.conftest import Call
from turntree.cli.root import root


def test_members_are_added_changed_and_removed(turntree: Call) -> None:
    assert turntree("member", "list").lines[0].split()[:2] == ["ana", "admin"]
    added = turntree("member", "add", "bob", "--role", "guest")
    assert added.out == "bob is a guest\n"
    assert added.err == "undo with: turntree member remove bob\n"
    changed = turntree("member", "role", "bob", "member", "--json").document
    assert changed["undo"] == "turntree member role bob guest"
    assert (changed["principal"], changed["before"], changed["role"]) == (
        "human:bob", "guest", "member",
    )  # fmt: skip
    assert turntree("member", "role", "bob", "member").out == "bob is a member already\n"
    listed = turntree("member", "list", "--json").documents
    assert [(one["principal"], one["role"]) for one in listed] == [
        ("human:ana", "admin"), ("human:bob", "member"),
    ]  # fmt: skip
    removed = turntree("member", "remove", "human:bob")
    assert removed.out == "bob was a member, and is removed\n"
    assert removed.err == "undo with: turntree member add --role member bob\n"
    assert len(turntree("member", "list").lines) == 1
    assert turntree("fsck").code == 0


def test_a_name_that_looks_like_an_option_can_be_undone(turntree: Call) -> None:
    added = turntree("member", "add", "--", "--all")
    assert added.err == "undo with: turntree member remove -- --all\n"


def test_only_an_admin_manages_members(turntree: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    turntree("member", "add", "bob")
    monkeypatch.setenv("TURNTREE_USER", "bob")
    denied = turntree("member", "add", "carl")
    assert denied.code == 4
    assert denied.err == (
        "error: human:bob may not do this: that takes the role admin, which human:ana has\n"
        "next: turntree member list\n"
    )
    assert "action:member.manage" in turntree("audit").out
    left = turntree("member", "remove", "bob")
    # Only an admin could add them again.
    assert (left.code, left.err) == (0, "")


def test_a_removed_admin_keeps_neither_a_key_nor_an_invitation(
    turntree: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    turntree("member", "add", "bob", "--role", "admin")
    monkeypatch.setenv("TURNTREE_USER", "bob")
    code = turntree("invitation", "create", "bob", "--role", "admin", "--json").document["code"]
    made = turntree("key", "create", "ci", "--json").document
    monkeypatch.setenv("TURNTREE_USER", "ana")
    assert turntree("member", "remove", "bob").code == 0
    (listed,) = turntree("key", "list", "--all", "--json").documents
    assert (listed["id"], listed["state"]) == (made["id"], "revoked")
    assert listed["reason"] == "its holder was removed"
    monkeypatch.setenv("TURNTREE_USER", "bob")
    refused = turntree("invitation", "accept", code)
    assert refused.code == 1
    assert "was revoked" in refused.err
    assert turntree("session", "create", "mine").code == 4
    monkeypatch.setenv("TURNTREE_USER", "ana")
    assert turntree("fsck").code == 0


def test_a_user_named_like_a_pair_is_refused(
    turntree: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    turntree("member", "add", "bob")
    monkeypatch.setenv("TURNTREE_USER", "eve for human:ana")
    refused = turntree("member", "add", "mallory", "--role", "admin")
    assert refused.code == 1
    assert "'eve for human:ana' is not the id of a principal" in refused.err


def test_errors_say_what_to_do_next(turntree: Call) -> None:
    alone = turntree("member", "remove", "ana")
    assert alone.code == 1
    assert alone.err.endswith("\nnext: turntree member add NAME --role admin\n")
    turntree("member", "add", "bob")
    twice = turntree("member", "add", "bob", "--role", "guest")
    assert twice.err.endswith("\nnext: turntree member role bob guest\n")
    assert turntree("member", "role", "eve", "guest").code == 3
    assert turntree("member", "role", "bob", "owner").code == 2
    assert turntree("member", "add", "agent:atlas").code == 1


def test_a_guest_is_told_what_to_ask_for(turntree: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    turntree("session", "create", "ours")
    turntree("member", "add", "bob", "--role", "guest")
    monkeypatch.setenv("TURNTREE_USER", "bob")
    denied = turntree("session", "create", "mine")
    assert denied.code == 4
    assert "human:bob is a guest, and may change only what was granted by name" in denied.err
    assert turntree("session", "list").code == 0


def test_an_admin_sets_and_removes_a_password(turntree: Call) -> None:
    done = type_in("correct horse battery\n", "member", "password")
    assert done.stdout == "ana has a password\n"
    assert done.stderr == "undo with: turntree member password --remove\n"
    short = type_in("short\n", "member", "password")
    assert short.exit_code == 1
    assert "a password has 12 to 1000 characters" in short.stderr
    assert turntree("member", "password", "--remove").out == "the password of ana is removed\n"
    assert turntree("member", "password", "--remove").out == "ana has none\n"
    assert turntree("fsck").code == 0


def type_in(text: str, *words: str) -> Result:
    """Run a command that finds a text in its input."""
    return CliRunner().invoke(root, list(words), input=text, prog_name="turntree")
