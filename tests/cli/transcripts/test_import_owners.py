"""Two people import transcripts of the same name: each has a session of their own."""

import shutil
from pathlib import Path

import pytest

from proofs.transcripts.claude_code import Tape, save
from tests.cli.conftest import Answer, Call

SECRET = "merger"


def write(folder: Path, *said: str) -> Path:
    """Write one session of Claude Code and return its file."""
    tape = Tape()
    for one in said:
        tape.exchange(one)
    save(folder, tape)
    (file,) = folder.rglob("*.jsonl")
    return file


@pytest.fixture
def people(turntree: Call, monkeypatch: pytest.MonkeyPatch) -> Call:
    """The command line; the first word says who calls."""

    def call(who: str, *words: str) -> Answer:
        monkeypatch.setenv("TURNTREE_USER", who)
        return turntree(*words)

    return call


def label_of(people: Call, who: str) -> str:
    """Return the label of the one session that a person sees."""
    (session,) = people(who, "--json", "session", "list", "--all").documents
    return str(session["label"])


def list_labels(people: Call, who: str) -> list[str]:
    found = people(who, "--json", "session", "list", "--all").documents
    return sorted(str(session["label"]) for session in found)


def test_an_import_acts_as_the_user_who_imports(people: Call, tmp_path: Path) -> None:
    file = write(tmp_path / "a", "hello")
    assert people("ana", "import", str(file)).code == 0
    label = label_of(people, "ana")
    write(tmp_path / "a", "hello", "more")
    assert "1 moved on" in people("ana", "import", str(file)).out
    moves = people("ana", "--json", "reflog", label).documents
    assert {str(move["by"]) for move in moves} == {"human:ana"}
    assert [move["kind"] for move in moves] == ["import", "fork"]


def test_an_import_never_moves_a_private_session_of_another_user(
    people: Call, tmp_path: Path
) -> None:
    assert people("ana", "import", str(write(tmp_path / "a", SECRET))).code == 0
    label = label_of(people, "ana")
    assert people("ana", "program", "visibility", label, "private").code == 0
    before = people("ana", "--json", "reflog", label).documents
    done = people("bob", "import", str(write(tmp_path / "b", "injected")))
    assert "1 session begun, 0 moved on" in done.out
    assert "1 session of yours began beside another user's of the same name" in done.err
    assert people("ana", "--json", "reflog", label).documents == before
    assert "injected" not in people("ana", "log", label).out
    own = label_of(people, "bob")
    assert own != label
    assert SECRET not in people("bob", "show", own).out
    assert people("bob", "fsck").code == 0


def test_an_import_never_moves_an_open_session_of_another_user(
    people: Call, tmp_path: Path
) -> None:
    assert people("ana", "import", str(write(tmp_path / "a", "hello"))).code == 0
    label = label_of(people, "ana")
    assert people("bob", "import", str(write(tmp_path / "b", "hello", "injected"))).code == 0
    assert "injected" not in people("ana", "log", label).out
    assert len(list_labels(people, "bob")) == 2


def test_each_user_s_import_goes_on_where_their_own_stopped(people: Call, tmp_path: Path) -> None:
    ana, bob = write(tmp_path / "a", "hello"), write(tmp_path / "b", "good morning")
    assert people("ana", "import", "--private", str(ana)).code == 0
    assert people("bob", "import", "--private", str(bob)).code == 0
    for who, file in (("ana", ana), ("bob", bob)):
        assert "1 unchanged" in people(who, "import", str(file)).out
    write(tmp_path / "a", "hello", "and more")
    assert "0 sessions begun, 1 moved on" in people("ana", "import", str(ana)).out
    assert "and more" in people("ana", "log", label_of(people, "ana")).out
    assert "and more" not in people("bob", "log", label_of(people, "bob")).out


def test_the_copy_of_a_private_transcript_is_its_importer_s_and_stays_closed(
    people: Call, tmp_path: Path
) -> None:
    ana = write(tmp_path / "a", SECRET)
    assert people("ana", "import", "--private", str(ana)).code == 0
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    bob = write(tmp_path / "b", SECRET, "next")
    assert people("bob", "import", str(bob)).code == 0
    assert list_labels(people, "cem") == []
    assert "next" in people("bob", "log", label_of(people, "bob")).out
    assert "next" not in people("ana", "log", label_of(people, "ana")).out
    assert people("ana", "fsck").code == 0


def test_private_imports_are_read_by_their_importer_alone(people: Call, tmp_path: Path) -> None:
    assert people("ana", "import", "--private", str(write(tmp_path / "a", SECRET))).code == 0
    assert SECRET in people("ana", "log", label_of(people, "ana")).out
    assert list_labels(people, "bob") == []
    assert SECRET not in people("bob", "log", "--all").out


def test_a_setting_makes_every_import_private(people: Call, tmp_path: Path) -> None:
    assert people("ana", "config", "set", "import_private", "yes").code == 0
    assert people("ana", "import", str(write(tmp_path / "a", SECRET))).code == 0
    assert list_labels(people, "bob") == []
    assert people("ana", "import", "--public", str(write(tmp_path / "c", "hello"))).code == 0
    assert people("ana", "config", "set", "import_private", "perhaps").code != 0
