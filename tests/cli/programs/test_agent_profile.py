"""The profile of an agent: what everyone reads of it, and who may change it."""

import pytest

from tests.cli.conftest import Call
from tests.cli.talker import furnish

PICTURE = "https://example.org/atlas.png"


@pytest.fixture
def atlas(turntree: Call) -> Call:
    furnish(turntree)
    made = turntree(
        "agent", "create", "atlas", "--soul", "You are patient.", "--description", "Keeps notes.",
        "--function", "add", "--model", "echo", "--avatar", PICTURE,
    )  # fmt: skip
    assert made.code == 0, made.err
    return turntree


def test_a_profile_has_a_picture_an_owner_and_the_time_of_the_last_turn(atlas: Call) -> None:
    before = atlas("agent", "show", "atlas", "--json").document
    assert before["config"] == {
        "soul": "You are patient.", "description": "Keeps notes.", "functions": ["add"],
        "default_model": "@(echo)", "avatar_url": PICTURE,
    }  # fmt: skip
    assert (before["owner"], before["visibility"]) == ("human:ana", "public")
    assert (before["agent_kind"], before["last_active_at"]) == ("user_agent", None)
    turn = atlas("send", "@(atlas)", "hello", "--json").document["turn"]
    sealed = atlas("show", turn, "--json").document["sealed_at"]
    assert atlas("agent", "show", "atlas", "--json").document["last_active_at"] == sealed
    assert "last active" in atlas("agent", "show", "atlas").out
    assert atlas("agent", "configure", "atlas", "--avatar", "not an address").code == 1


def test_a_sandbox_that_no_profile_can_have_is_refused(atlas: Call) -> None:
    refused = atlas("agent", "configure", "atlas", "--sandbox", "a jail")
    assert (refused.code, "sandbox" in refused.err) == (1, True)


def test_a_sandbox_that_this_machine_lacks_is_noted_with_those_it_has(atlas: Call) -> None:
    known = atlas("agent", "configure", "atlas", "--sandbox", "code")
    assert (known.code, "no sandbox profile" in known.err) == (0, False)
    unknown = atlas("agent", "configure", "atlas", "--sandbox", "jail")
    assert unknown.code == 0
    assert "no sandbox profile 'jail' on this machine: there are code, folder" in unknown.err
    made = atlas("agent", "create", "scribe", "--sandbox", "jail")
    assert (made.code, "no sandbox profile 'jail'" in made.err) == (0, True)


def test_everyone_reads_a_public_profile_and_only_its_owner_changes_it(
    atlas: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    atlas("agent", "create", "vault", "--private", "--prompt", "You keep secrets.")
    profile = atlas("agent", "show", "atlas", "--json").document
    monkeypatch.setenv("TURNTREE_USER", "bob")
    assert atlas("agent", "show", "atlas", "--json").document == profile
    assert [one["name"] for one in atlas("agent", "list", "--json").documents] == ["atlas"]
    assert atlas("agent", "show", "vault").code == 3
    for words in (
        ("agent", "configure", "atlas", "--description", "Mine."),
        ("agent", "set-state", "atlas", "paused"),
        ("program", "visibility", "atlas", "private"),
    ):
        refused = atlas(*words)
        assert refused.code == 4, words
        assert "human:ana" in refused.err
    assert atlas("agent", "show", "atlas", "--json").document == profile
    monkeypatch.setenv("TURNTREE_USER", "ana")
    assert atlas("program", "visibility", "atlas", "private").code == 0
    monkeypatch.setenv("TURNTREE_USER", "bob")
    assert atlas("agent", "show", "atlas").code == 3


def test_its_owner_deletes_an_agent_and_its_turns_stay(
    atlas: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = atlas("send", "@(atlas)", "hello", "--json").document["turn"]
    assert atlas("program", "grant", "atlas", "human:bob", "configure").code == 0
    monkeypatch.setenv("TURNTREE_USER", "bob")
    refused = atlas("agent", "delete", "atlas")
    assert (refused.code, "human:ana" in refused.err) == (4, True)
    monkeypatch.setenv("TURNTREE_USER", "ana")
    deleted = atlas("agent", "delete", "atlas")
    assert deleted.code == 0, deleted.err
    for words in (("agent", "list"), ("program", "list", "--kind", "agent")):
        assert atlas(*words, "--json").documents == []
    (listed,) = atlas("agent", "list", "--state", "deleted", "--json").documents
    assert listed["name"] == "atlas"
    refused = atlas("send", "@(atlas)", "are you there?")
    assert (refused.code, "the agent atlas is deleted" in refused.err) == (1, True)
    shown = atlas("show", turn, "--json").document
    assert shown["by"]["id"] == "atlas"
    profile = atlas("agent", "show", "atlas", "--json").document
    assert (profile["state"], profile["config"]["avatar_url"]) == ("deleted", PICTURE)
    assert profile["last_active_at"] == shown["sealed_at"]
    assert atlas("agent", "set-state", "atlas", "idle").code == 0
    assert atlas("send", "@(atlas)", "welcome back").code == 0
    assert atlas("fsck").code == 0
