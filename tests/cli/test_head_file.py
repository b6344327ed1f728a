"""Where one is: the current session, the folder that remembers it, and the settings."""

import os
from pathlib import Path

import anyio
import pytest

from tests.cli.conftest import Call
from tests.cli.project import Project
from turntree.boot.open import open_tree
from turntree.core.errors import InvalidOperation
from turntree.core.session import Spawn
from turntree.system.head_file import find_place, read_head, write_head


def test_init_twice_is_init_once(bare: Call) -> None:
    first, second = bare("init", "--json").document, bare("init", "--json").document
    assert (first["created"], second["created"]) == (True, False)
    assert Path(".turntree/HEAD").read_text() == "main\n"
    assert Path(".turntree/.gitignore").read_text() == "*\n"
    assert "turntree log" in bare("init").err


def test_a_place_with_a_session_that_is_there_is_told_to_begin_none(turntree: Call) -> None:
    assert "turntree session create other" in turntree("init", "-s", "other").err
    turntree("session", "create", "main")
    Path(".turntree/HEAD").unlink()
    told = turntree("init", "-s", "main").err
    assert "session create" not in told
    assert "next: turntree log" in told


def test_a_place_that_cannot_be_named_is_not_made(bare: Call) -> None:
    assert bare("init", "--session", "bad~").code == 2
    assert not Path(".turntree").exists()


def test_the_nearest_folder_wins(tmp_path: Path) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    write_head(tmp_path, "above")
    assert read_head(below) == "above"
    assert write_head(below, "changed") == tmp_path / ".turntree"
    assert read_head(tmp_path) == "changed"
    assert find_place(below) == tmp_path / ".turntree"


def test_switch_says_how_to_switch_back(reader: Call) -> None:
    answer = reader("switch", "demo/opus")
    assert "undo with: turntree switch demo/fix-login" in answer.err
    assert Path(".turntree/HEAD").read_text() == "demo/opus\n"


def test_the_variable_wins_over_the_folder(reader: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNTREE_SESSION", "demo/opus")
    assert reader("session", "show", "--json").document["label"] == "demo/opus"
    assert "TURNTREE_SESSION is set" in reader("switch", "demo/middleware").err


def test_the_only_session_need_not_be_chosen(turntree: Call) -> None:
    turntree("session", "create", "lonely")
    assert turntree("status", "--json").document["head"] == "lonely"
    turntree("session", "create", "second")
    assert turntree("status", "--json").document["head"] is None
    answer = turntree("log")
    assert (answer.code, answer.err) == (
        3,
        "error: HEAD is not set\nnext: turntree switch SESSION\n",
    )
    turntree("session", "create", "main")
    assert turntree("status", "--json").document["head"] == "main"


def test_head_is_never_a_subagents_session_where_its_parent_worked(
    turntree: Call, project: Project
) -> None:
    turntree("session", "create", "elsewhere")
    project.turn("Delegate", {"a": "1"}, session="lead")

    async def spawn() -> None:
        async with open_tree(project.settings) as tree:
            lead = await tree.sessions.get("lead")
            assert lead.head is not None
            await tree.sessions.create("lead/worker", spawn=Spawn(lead.id, lead.head, "c1"))

    anyio.run(spawn)
    project.turn("Count", {"b": "1"}, session="lead/worker")
    assert turntree("status", "--json").document["head"] == "lead"


def test_a_session_without_turns_says_so(turntree: Call) -> None:
    turntree("session", "create", "main")
    answer = turntree("log")
    assert (answer.code, answer.out) == (0, "")
    assert answer.err.startswith("main has no turns yet.")


def test_the_environment_wins_over_the_file_and_the_file_over_us(
    bare: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bare("config", "set", "user", 'quo"ted\\').code == 0
    bare("config", "set", "color", "never")
    sources = {one["key"]: one["source"] for one in bare("config", "list", "--json").documents}
    assert sources == {
        "database_url": "environment",
        "home": "default",
        "workspace": "environment",
        "user": "environment",
        "embedder_url": "default",
        "embedder_model": "default",
        "embedder_dims": "default",
        "secret_hosts": "default",
        "import_private": "default",
        "redact": "default",
        "console_url": "default",
        "live_url": "default",
        "shards": "default",
        "server": "default",
        "server_http": "default",
        "identity_providers": "default",
        "rate_limit": "default",
        "stranger_rate_limit": "default",
        "trusted_proxies": "default",
        "webhook_hosts": "default",
        "approval_expires": "default",
        "notice_command": "default",
        "sandbox_profiles": "default",
        "unsandboxed_connectors": "default",
        "mail_server": "default",
        "agent_tokens_daily": "default",
        "mail_from": "default",
        "mail_password": "default",
        "color": "file",
    }
    assert "wins" in bare("config", "set", "user", "bruno").err
    monkeypatch.delenv("TURNTREE_USER")
    assert bare("config", "get", "user").out == "bruno\n"


def test_what_holds_several_values_is_added_to(bare: Call) -> None:
    bare("config", "add", "secret_hosts", "KEY@a.example")
    added = bare("config", "add", "secret_hosts", "KEY@b.example")
    assert "undo with: turntree config set secret_hosts KEY@a.example" in added.err
    assert bare("config", "get", "secret_hosts").out == "KEY@a.example,KEY@b.example\n"
    assert "NAME@HOST" in bare("config", "add", "secret_hosts", "KEY").err
    assert bare("config", "add", "user", "bruno").code == 2


def test_a_setting_is_what_was_written(bare: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TURNTREE_USER")
    for value in ('quo"ted', "back\\slash", "tab\tand\nline", "ü"):
        bare("config", "set", "user", value)
        assert bare("config", "get", "user", "--json").document["value"] == value


def test_what_config_set_prints_takes_it_back(bare: Call) -> None:
    first = bare("config", "set", "color", "never", "--json").document
    second = bare("config", "set", "color", "always", "--json").document
    assert second["undo"] == "turntree config set color never"
    bare(*first["undo"].split()[1:])
    assert bare("config", "get", "color").out == "auto\n"
    assert bare("config", "unset", "color").code == 3


def test_the_settings_file_is_ours_alone(bare: Call, tmp_path: Path) -> None:
    bare("config", "set", "database_url", "postgresql://ana:secret@db/turntree")
    assert (tmp_path / "config.toml").stat().st_mode & 0o777 == 0o600


def test_a_file_that_is_no_toml_is_said_to_be_none(bare: Call, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("user = \n")
    answer = bare("config")
    assert answer.code == 1
    assert "is not TOML" in answer.err


def test_a_nonsense_value_is_refused(bare: Call) -> None:
    assert bare("config", "set", "color", "pink").code == 1
    assert bare("config", "set", "colour", "never").code == 2


@pytest.mark.timeout(30)
def test_no_link_in_a_project_is_followed(tmp_path: Path) -> None:
    """A cloned project may hold anything under these names."""
    precious = tmp_path / "bashrc"
    precious.write_text("precious\n")
    place = tmp_path / "project/.turntree"
    place.mkdir(parents=True)
    for name in ("HEAD", "HEAD.new"):
        (place / name).symlink_to(precious)
    with pytest.raises(
        InvalidOperation, match="HEAD is a link, and none is followed there: remove it"
    ):
        read_head(place.parent)
    write_head(place.parent, "chosen")
    assert read_head(place.parent) == "chosen"
    assert precious.read_text() == "precious\n"
    for endless in ("/dev/zero", None):
        (place / "HEAD").unlink()
        if endless is None:
            os.mkfifo(place / "HEAD")
        else:
            (place / "HEAD").symlink_to(endless)
        with pytest.raises(InvalidOperation, match="remove it"):
            read_head(place.parent)
    (place / "HEAD").unlink()
    (place / "HEAD").write_bytes(b"a" * 5000)
    assert read_head(place.parent) == "a" * 1000


def test_no_folder_that_is_a_link_is_followed(tmp_path: Path) -> None:
    git = tmp_path / ".git"
    git.mkdir()
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / ".turntree").symlink_to(git)
    for act in (lambda: read_head(tmp_path), lambda: write_head(tmp_path, "mine")):
        with pytest.raises(InvalidOperation, match=r"\.turntree is a link"):
            act()
    assert (git / "HEAD").read_text() == "ref: refs/heads/main\n"


def test_an_agent_here_comes_before_a_choice_made_above(
    turntree: Call, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    turntree("session", "create", "chosen-above")
    write_head(project.folder.parent, "chosen-above")
    assert turntree("status", "--json").document["head"] == "chosen-above"
    project.turn("Work", {"a": "1"}, session="agent")
    assert turntree("status", "--json").document["head"] == "agent"
    (project.folder / "deep").mkdir()
    monkeypatch.chdir(project.folder / "deep")
    assert turntree("status", "--json").document["head"] == "agent"
    monkeypatch.chdir(project.folder.parent)
    assert turntree("status", "--json").document["head"] == "chosen-above"
    # What is chosen where the agent works comes first again, and the folder above keeps its own.
    monkeypatch.chdir(project.folder / "deep")
    turntree("session", "create", "mine")
    answer = turntree("switch", "mine")
    assert turntree("status", "--json").document["head"] == "mine"
    assert (project.folder / ".turntree/HEAD").read_text() == "mine\n"
    assert read_head(project.folder.parent) == "chosen-above"
    assert "undo with: turntree switch" in answer.err


def test_an_archived_session_is_never_head(turntree: Call) -> None:
    for label in ("main", "old"):
        turntree("session", "create", label)
    turntree("switch", "old")
    turntree("session", "archive", "old")
    assert turntree("status", "--json").document["head"] == "main"
    refused = turntree("switch", "old")
    assert refused.code == 1
    assert "error: old is archived, so it cannot be HEAD" in refused.err
    assert "next: turntree session unarchive old" in refused.err
    turntree("session", "unarchive", "old")
    assert turntree("status", "--json").document["head"] == "old"
    turntree("switch", "--none")
    turntree("session", "archive", "main")
    assert turntree("status", "--json").document["head"] == "old", "the only one that is active"


def test_switch_none_in_a_folder_of_sample_data_names_its_workspace_in_the_undo(
    turntree: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("TURNTREE_WORKSPACE")
    monkeypatch.setenv("TURNTREE_HOME", str(tmp_path / "home"))
    assert turntree("demo").code == 0
    undo = "undo with: TURNTREE_WORKSPACE=turntree-demo turntree switch demo/fix-login"
    assert undo in turntree("switch", "--none").err


def test_switch_none_deletes_the_choice_and_says_how_to_go_back(turntree: Call) -> None:
    for label in ("main", "other"):
        turntree("session", "create", label)
    assert "undo with: turntree switch --none" in turntree("switch", "other").err
    answer = turntree("switch", "--none")
    assert answer.out == f"{Path.cwd() / '.turntree/HEAD'} is deleted; HEAD is main now\n"
    assert answer.err == "undo with: turntree switch other\n"
    assert not Path(".turntree").exists()
    again = turntree("switch", "--none", "--json").document
    assert again == {"place": None, "before": None, "head": "main", "undo": None}
    assert turntree("switch", "other", "--none").code == 2
    turntree("switch", "other")
    assert Path(".turntree/HEAD").read_text() == "other\n"


def test_rewind_files_names_the_session_that_worked_here(turntree: Call, project: Project) -> None:
    project.turn("First", {"a": "1"}, session="agent")
    project.turn("Second", {"a": "2"}, session="agent")
    project.say("One", session="talk")
    project.say("Two", session="talk")
    turntree("switch", "talk")
    answer = turntree("rewind", "HEAD~1", "--files")
    assert answer.code == 3
    assert answer.err == (
        "error: talk has no snapshots of files, and agent worked in this folder\n"
        "next: turntree switch agent\n"
    )
    turntree("switch", "agent")
    assert turntree("rewind", "HEAD~1", "--files").code == 0
