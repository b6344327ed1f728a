"""``remote``, ``push`` and ``pull``, as two people with two ledgers type them."""

import json
import os
import zlib
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlencode

import anyio
import pytest
from psycopg.conninfo import conninfo_to_dict

from proofs.transcripts.claude_code import Tape, save
from tests.cli.conftest import Call, choose_database
from tests.cli.project import Project
from tests.databases import Databases
from turntree.boot.open import Settings, open_tree
from turntree.core.message import assistant, user

Elsewhere = Callable[[], AbstractContextManager[None]]
KEY = "sk-ant-api03-" + "Ab1" * 20


@pytest.fixture
def elsewhere(
    databases: Databases, template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Generator[Elsewhere, None, None]:
    """Another person with a ledger, a home and a name of their own, which stay between visits."""
    with databases.lend(template) as lent:

        @contextmanager
        def enter() -> Generator[None, None, None]:
            with monkeypatch.context() as patch:
                choose_database(lent, patch)
                patch.setenv("TURNTREE_HOME", str(tmp_path / "their home"))
                patch.setenv("TURNTREE_CONFIG", str(tmp_path / "their config" / "config.toml"))
                patch.setenv("TURNTREE_USER", "bob")
                yield

        yield enter


@pytest.fixture
def folder(tmp_path: Path, turntree: Call, elsewhere: Elsewhere) -> Path:
    """A folder that is a remote called ``team`` for both of them."""
    place = tmp_path / "team"
    assert turntree("remote", "add", "team", str(place), "--json").code == 0
    with elsewhere():
        assert turntree("remote", "add", "team", str(place), "--json").code == 0
    return place


def test_a_session_goes_to_a_colleague_and_comes_back(
    turntree: Call, project: Project, elsewhere: Elsewhere, folder: Path, tmp_path: Path
) -> None:
    project.write({".env": f"KEY={KEY}\n"})
    project.turn("begin the cart", {"cart.py": "total = 1\n"})
    digests = _digests(turntree, "main")
    assert "2 turns" not in turntree("push", "main", "--dry-run").out
    pushed = turntree("push", "main")
    assert pushed.code == 0, pushed.err
    assert "1 turn of main pushed to team" in pushed.out
    assert ".env: 1 secret taken out" in pushed.err
    assert turntree("push", "main", "--json").document["result"] == "unchanged"
    assert not any(KEY.encode() in _content(path) for path in _files(folder))
    with elsewhere():
        assert turntree("pull", "--dry-run", "--json").document["heads"][0]["result"] == "moved"
        pulled = turntree("pull")
        assert pulled.code == 0, pulled.err
        assert pulled.out == "team/main is new: 1 turn\n"
        assert _digests(turntree, "team/main") == digests
        theirs = tmp_path / "theirs"
        assert turntree("worktree", "team/main", str(theirs), "--json").code == 0
        assert (theirs / "cart.py").read_text() == "total = 1\n"
        _say("team/main", "bob goes on")
        back = turntree("push", "team/main", "--json").document
        assert (back["session"], back["turns"], back["turns_known"]) == ("main", 1, 1)
        assert turntree("fsck").out.startswith("sound")
    (arrived,) = (
        head
        for head in turntree("pull", "--json").document["heads"]
        if head["result"] not in ("unchanged", "ahead")
    )
    assert (arrived["label"], arrived["result"], arrived["turns"]) == ("main", "moved", 1)
    assert _digests(turntree, "main")[1:] == digests
    assert turntree("fsck").out.startswith("sound")
    assert turntree("undo", "main", "--json").code == 0
    assert _digests(turntree, "main") == digests


def test_heads_that_both_continued_stay_visible(
    turntree: Call, project: Project, elsewhere: Elsewhere, folder: Path
) -> None:
    _begin_and_have_bob_continue(turntree, project, elsewhere)
    project.turn("ana goes on")
    ours = _digests(turntree, "main")
    answer = turntree("pull")
    assert "you and bob have both continued main: theirs is team/main+bob" in answer.out
    assert _digests(turntree, "main") == ours
    assert _digests(turntree, "team/main+bob")[1:] == ours[1:]
    again = turntree("pull", "--json").document
    assert {head["turns"] for head in again["heads"]} == {0}
    assert turntree("push", "main", "--json").document["turns"] == 1
    with elsewhere():
        answer = turntree("pull", "--json").document["heads"]
        assert {head["label"] for head in answer} == {"team/main", "team/main+ana"}
        assert turntree("fsck").out.startswith("sound")


def test_one_person_who_pushes_two_ways_on_keeps_both(
    turntree: Call, project: Project, elsewhere: Elsewhere, folder: Path
) -> None:
    project.turn("begin")
    project.turn("the first way")
    assert turntree("push", "main", "--json").code == 0
    assert turntree("rewind", "main", "main~1", "--json").code == 0
    project.turn("the second way")
    pushed = turntree("push", "main", "--json").document
    assert (pushed["turns"], pushed["turns_known"]) == (1, 1)
    with elsewhere():
        assert len(turntree("pull", "--json").document["heads"]) == 2


def test_a_push_is_taken_back(
    turntree: Call, project: Project, elsewhere: Elsewhere, folder: Path
) -> None:
    project.turn("begin")
    assert turntree("push", "main").code == 0
    project.turn("too much")
    assert turntree("push", "main", "--json").code == 0
    assert turntree("push", "main", "--withdraw").code == 0
    with elsewhere():
        assert turntree("pull", "--json").document["heads"][0]["turns"] == 1
    assert turntree("push", "main", "--json").document["turns"] == 0
    with elsewhere():
        assert turntree("pull", "--json").document["heads"][0]["turns"] == 1


def test_a_remote_that_was_cut_or_changed_is_refused(
    turntree: Call, project: Project, elsewhere: Elsewhere, folder: Path
) -> None:
    project.turn("begin the cart", {"cart.py": "total = 1\n"})
    assert turntree("push", "main", "--json").code == 0
    files = [path for path in _files(folder) if path.parent.parent.name != "turns"]
    with elsewhere():
        for path in files:
            whole = path.read_bytes()
            for damaged in (whole[:-1], whole[: len(whole) // 2], b"", whole[:-1] + b"\0"):
                path.write_bytes(damaged)
                answer = turntree("pull")
                assert answer.code in (1, 3), (path, answer.out)
                assert turntree("session", "list", "--json").documents == []
            path.unlink()
            path.symlink_to("/etc/passwd")
            if path.name != "turntree-remote":
                assert turntree("pull").code in (0, 1)
                assert turntree("session", "list", "--json").documents == []
            path.unlink()
            path.write_bytes(whole)
        assert turntree("pull", "--json").document["heads"][0]["turns"] == 1
        assert turntree("fsck").out.startswith("sound")


@pytest.mark.parametrize(
    "forged",
    [
        {"session": "../../x"},
        {"session": "a b"},
        {"owner": "\x1b[2J"},
        {"owner": 7},
        {"head": "0198c2b2-0000-7000-8000-000000000000"},
        {"digest": "sha256:" + "0" * 64},
        {"part": "../../../etc/passwd"},
        {"part": None},
        {"depth": "deep"},
        {"turntree": "remote/2"},
    ],
    ids=str,
)
def test_a_forged_head_is_refused(
    turntree: Call,
    project: Project,
    elsewhere: Elsewhere,
    folder: Path,
    forged: dict[str, object],
) -> None:
    project.turn("begin")
    assert turntree("push", "main", "--json").code == 0
    (record,) = (folder / "heads").glob("*/*")
    record.write_text(json.dumps({**json.loads(record.read_text()), **forged}) + "\n")
    with elsewhere():
        assert turntree("pull").code == 1
        assert turntree("session", "list", "--json").documents == []


def test_a_forged_part_cannot_change_what_is_here(
    turntree: Call, project: Project, elsewhere: Elsewhere, folder: Path
) -> None:
    _begin_and_have_bob_continue(turntree, project, elsewhere)
    before = turntree("log", "main", "--json").out
    (record,) = (
        path
        for path in (folder / "heads").glob("*/*")
        if json.loads(path.read_text())["owner"] == "bob"
    )
    told = json.loads(record.read_text())
    part = folder / "parts" / told["part"][:2] / told["part"]
    whole = zlib.decompress(part.read_bytes())
    digest = b'"base":{"depth":1,"digest":"sha256:'
    for old, new in (
        (b"bob goes on", b"bob is gone"),
        (b'"depth":2', b'"depth":3'),
        (told["head"].encode(), b"0198c2b2-0000-7000-8000-000000000000"),
        (digest, digest + b"0"),
        (b"\n", b'\n{"kind":"session","id":"x"}\n'),
        (b"\n", b'\n{"kind":"grant","row":{"program_id":"x"}}\n'),
        (b"\n", b'\n{"digest":"sha256:%s","kind":"file"}\n' % (b"0" * 64)),
    ):
        assert old in whole
        packed = zlib.compress(whole.replace(old, new))
        name = sha256(packed).hexdigest()
        place = folder / "parts" / name[:2] / name
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(packed)
        record.write_text(json.dumps({**told, "part": name}) + "\n")
        answer = turntree("pull")
        assert answer.code == 1, answer.out
        assert turntree("log", "main", "--json").out == before
    record.write_text(json.dumps(told) + "\n")
    assert turntree("pull", "--json").code == 0


def test_a_secret_that_is_kept_here_does_not_leave(
    turntree: Call, elsewhere: Elsewhere, folder: Path, tmp_path: Path
) -> None:
    tape = Tape()
    tape.exchange(f"my key is {KEY}", "noted")
    tape.exchange("second")
    save(tmp_path / ".claude", tape)
    turntree("import", "--no-redact", str(tmp_path / ".claude"))
    (session,) = turntree("session", "list", "--json").documents
    pushed = turntree("push", session["label"], "--json").document
    assert len(pushed["removed"]["messages"]) == 1
    assert not any(KEY.encode() in _content(path) for path in _files(folder))
    with elsewhere():
        (head,) = turntree("pull", "--json").document["heads"]
        assert turntree("verify", head["label"]).code == 0


def test_a_database_is_a_remote(
    turntree: Call, project: Project, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    with elsewhere():
        url = os.environ["TURNTREE_DATABASE_URL"]
        turntree("session", "list")
    project.turn("begin", {"cart.py": "total = 1\n"})
    digests = _digests(turntree, "main")
    assert turntree("remote", "add", "other", _as_url(url), "--json").code == 0
    pushed = turntree("push", "main")
    assert pushed.code == 0, pushed.err
    assert "files stay on this machine" in pushed.err
    with elsewhere():
        assert _digests(turntree, "main") == digests
        _say("main", "bob goes on")
        assert turntree("fsck").out.startswith("sound")
    (head,) = turntree("pull", "other", "main", "--json").document["heads"]
    assert (head["label"], head["result"], head["turns"]) == ("main", "moved", 1)
    project.turn("ana goes on")
    with elsewhere():
        _say("main", "bob too")
    assert turntree("push", "main", "--json").document["stands_at"] == "main+ana"
    (head, *_) = turntree("pull", "other", "main", "--json").document["heads"]
    assert (head["result"], head["beside"]) == ("diverged", "main")
    assert turntree("fsck").out.startswith("sound")


def test_remotes_are_named_listed_and_removed(turntree: Call, tmp_path: Path) -> None:
    url = "postgresql://ana:secret-word@db.example:5432/ledger"
    added = turntree("remote", "add", "other", url, "--json")
    listed = turntree("remote", "list")
    removed = turntree("remote", "remove", "other")
    for answer in (added, listed, removed):
        assert "secret-word" not in answer.out + answer.err
        assert "ana:***@db.example" in answer.out
    assert "undo with: turntree remote add other" in removed.err
    config = Path(os.environ["TURNTREE_CONFIG"]).with_name("remotes.json")
    assert config.stat().st_mode & 0o777 == 0o600
    assert turntree("remote", "add", "other").code == 0
    assert turntree("remote", "add", "other", str(tmp_path / "x")).code == 1
    assert turntree("remote", "add", "a/b", str(tmp_path / "x")).code == 1
    assert turntree("remote", "add", "web", "https://example.org/x").code == 1
    assert turntree("remote", "list", "--json").documents == [
        {"name": "other", "kind": "database", "place": url.replace("secret-word", "***")}
    ]
    assert turntree("push", "main", "--to", "nowhere").code == 3


def test_a_folder_with_other_files_does_not_become_a_remote(
    turntree: Call, project: Project, tmp_path: Path
) -> None:
    project.turn("begin")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat").write_text("cat")
    assert turntree("remote", "add", "photos", str(tmp_path / "photos"), "--json").code == 0
    assert turntree("push", "main").code == 1
    assert turntree("pull").code == 3
    assert [path.name for path in (tmp_path / "photos").iterdir()] == ["cat"]


def _begin_and_have_bob_continue(turntree: Call, project: Project, elsewhere: Elsewhere) -> None:
    """Push a session of one turn to the remote, where bob adds the second."""
    project.turn("begin")
    assert turntree("push", "main", "--json").code == 0
    with elsewhere():
        assert turntree("pull", "--json").code == 0
        _say("team/main", "bob goes on")
        assert turntree("push", "team/main", "--json").code == 0


def _digests(turntree: Call, session: str) -> list[str]:
    return [row["digest"] for row in turntree("log", session, "--json").documents]


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]


def _content(path: Path) -> bytes:
    data = path.read_bytes()
    try:
        return zlib.decompress(data)
    except zlib.error:
        return data


def _say(session: str, words: str) -> None:
    """Take a turn as the person whose environment this is."""

    async def work() -> None:
        async with open_tree(Settings.from_environment()) as tree:
            await tree.turns.record(session, [user(words)], [assistant("yes")])

    anyio.run(work)


def _as_url(conninfo: str) -> str:
    return f"postgresql:///?{urlencode(conninfo_to_dict(conninfo))}"


@pytest.mark.parametrize("plant", ["pipe", "endless", "other file"])
def test_a_remote_whose_mark_is_not_a_file_of_its_own_is_refused(
    turntree: Call, project: Project, folder: Path, tmp_path: Path, plant: str
) -> None:
    project.turn("begin")
    assert turntree("push", "main", "--json").code == 0
    mark = folder / "turntree-remote"
    told = mark.read_bytes()
    mark.unlink()
    if plant == "pipe":
        os.mkfifo(mark)
    elif plant == "endless":
        mark.symlink_to("/dev/zero")
    else:
        (tmp_path / "elsewhere").write_bytes(told)
        mark.symlink_to(tmp_path / "elsewhere")
    refused = turntree("pull")
    assert refused.code != 0
    assert "error:" in refused.err
    assert "Traceback" not in refused.err


def test_nothing_is_written_through_a_link_out_of_the_remote(
    turntree: Call, project: Project, folder: Path, tmp_path: Path
) -> None:
    project.turn("begin")
    assert turntree("push", "main", "--json").code == 0
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("parts", "turns", "heads"):
        (folder / name).rename(folder / f"{name}.old")
        (folder / name).symlink_to(outside, target_is_directory=True)
    project.turn("go on")
    refused = turntree("push", "main")
    assert refused.code != 0
    assert "leads out of the remote" in refused.err
    assert _files(outside) == []
