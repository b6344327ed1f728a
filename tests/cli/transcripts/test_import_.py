"""``import`` and ``watch``, on transcripts of our own making."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from proofs.corpus import Corpus
from proofs.transcripts.claude_code import A, Tape, save
from proofs.transcripts.samples import SAMPLES
from tests.cli.conftest import Call, forging
from tests.cli.talker import furnish
from turntree.system.head_file import read_head

COMMAND = "from turntree.cli.main import main; main()"
HEARS_CTRL_C = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
KEY = "sk-ant-" + "a1B2" * 12
ELSEWHERE = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")
SESSIONS, TURNS = 100, 30


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which no tool has ever worked."""
    for name in (*ELSEWHERE, "GEMINI_CLI_HOME", "OPENCODE_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def claude(home: Path) -> Tape:
    """A session of two turns that Claude Code left in its usual place."""
    tape = Tape()
    tape.exchange("first", f"my key is {KEY}")
    tape.exchange("second")
    save(home / ".claude", tape)
    return tape


def test_an_empty_home_is_told_what_to_do(turntree: Call, home: Path) -> None:
    answer = turntree("import")
    assert answer.code == 0
    assert "claude-code         0 transcripts" in answer.out
    assert "nothing to import" in answer.err
    assert "next: turntree import PATH" in answer.err


def test_head_is_the_session_that_last_worked_here_though_no_file_was_kept(
    turntree: Call, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two", "elsewhere"):
        folder = home / "other" if name == "elsewhere" else home
        tape = Tape(f"{name[:3]}00000-0000-4000-8000-000000000001", cwd=str(folder))
        tape.exchange(name)
        save(home / ".claude", tape)
    assert turntree("import").code == 0
    monkeypatch.chdir(home)
    assert "two" in turntree("log").out
    (home / "below").mkdir()
    monkeypatch.chdir(home / "below")
    assert turntree("log").code == 3, "nobody has worked there"


def test_head_is_an_agents_where_it_worked_and_main_elsewhere(
    turntree: Call, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    furnish(turntree)
    for name in ("one", "two"):
        tape = Tape(f"{name}00000-0000-4000-8000-000000000001", cwd=str(home))
        tape.exchange(name)
        save(home / ".claude", tape)
    assert turntree("import").code == 0
    elsewhere = turntree("status", "--json").document["head"]
    monkeypatch.chdir(home)
    here = turntree("status", "--json").document["head"]
    assert elsewhere == "main"
    assert here.startswith("claude-code/"), "an undo here takes back what was done here"
    chatted = turntree("chat")
    assert "main" in chatted.lines[0], "nobody talks on in what an agent did without choosing it"
    assert read_head(home) is None
    assert turntree("status", "--json").document["head"] == here, "nor does undo turn to the chat"
    assert turntree("chat", "main").code == 0
    assert read_head(home) == "main"


def test_a_private_session_that_last_worked_here_is_nobody_elses_head(
    turntree: Call, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two", "three"):
        tape = Tape(f"{name[:3]}00000-0000-4000-8000-000000000001", cwd=str(home))
        tape.exchange(name)
        save(home / ".claude", tape)
        assert turntree("import").code == 0
    monkeypatch.chdir(home)
    last = turntree("status", "--json").document["head"]
    assert "thr00000" in last
    assert turntree("program", "create", "session", last, "--private").code == 0
    monkeypatch.setenv("TURNTREE_USER", "bob")
    assert "two" in turntree("log").out
    assert last not in turntree("session", "list").out


def test_what_would_be_read_is_said_and_not_read(turntree: Call, claude: Tape) -> None:
    told = turntree("import", "--dry-run", "--json").document
    assert told["claude-code"]["transcripts"] == 1
    assert told["claude-code"]["bytes"] > 500
    assert told["codex"] == {"transcripts": 0, "bytes": 0}
    assert turntree("session", "list", "--json").out == ""


def test_an_import_says_what_it_did_and_importing_again_does_nothing(
    turntree: Call, claude: Tape
) -> None:
    first = turntree("import")
    assert first.code == 0
    assert first.lines[0] == "2 turns added, 0 known; 1 session begun, 0 moved on"
    assert "1 secret key taken out before anything was stored" in first.err
    assert "next: turntree search WORDS" in first.err
    again = turntree("import", "--json").document
    assert (again["bundles_unchanged"], again["bundles_read"], again["turns_added"]) == (1, 0, 0)
    assert turntree("fsck").out.startswith("sound")
    found = turntree("search", "second", "--json")
    assert found.code == 0


def test_a_secret_is_stored_only_for_those_who_insist(turntree: Call, claude: Tape) -> None:
    turntree("import")
    (session,) = turntree("session", "list", "--json").documents
    assert KEY not in turntree("show", f"{session['label']}~1").out
    done = turntree("import", "--no-redact", str(Path.home() / ".claude"), "--json").document
    assert done["secrets"] == 0


@pytest.mark.parametrize("origin", SAMPLES)
def test_a_named_place_is_read_whatever_tool_wrote_it(
    turntree: Call, home: Path, tmp_path: Path, origin: str
) -> None:
    path = SAMPLES[origin](tmp_path / "copied")
    done = turntree("import", "--from", origin, str(path), "--json").document
    assert done["turns_added"] >= 3
    assert done["failed"] == {}
    assert turntree("fsck").out.startswith("sound")


def test_only_the_tools_that_were_asked_for_are_read(turntree: Call, claude: Tape) -> None:
    told = turntree("import", "--from", "codex", "--dry-run", "--json").document
    assert told == {"codex": {"transcripts": 0, "bytes": 0}}
    answer = turntree("import", "--from", "ed")
    assert answer.code == 3
    assert "no importer reads 'ed'; there are chatgpt, claude-ai, claude-code" in answer.err


def test_a_path_that_nobody_knows_is_not_found(turntree: Call, home: Path) -> None:
    (home / "notes.txt").write_text("no transcript")
    answer = turntree("import", str(home / "notes.txt"))
    assert answer.code == 3
    assert "no importer knows what" in answer.err
    assert turntree("import", str(home / "nowhere")).code == 2


def test_what_people_moved_stays_where_they_moved_it(turntree: Call, claude: Tape) -> None:
    turntree("import")
    (session,) = turntree("session", "list", "--json").documents
    assert turntree("switch", session["label"]).code == 0
    assert turntree("rewind", "HEAD~1").code == 0
    (rewound,) = turntree("session", "list", "--json").documents
    claude.exchange("third")
    save(Path.home() / ".claude", claude)
    answer = turntree("import")
    assert answer.lines[0] == "1 turn added, 2 known; 0 sessions begun, 0 moved on"
    assert "1 session left at the place you chose" in answer.err
    (kept,) = turntree("session", "list", "--json").documents
    assert kept["head"] == rewound["head"]


def test_kept_records_are_projected_again_only_by_better_readers(
    turntree: Call, claude: Tape
) -> None:
    turntree("import")
    (Path.home() / ".claude/projects").rename(Path.home() / "gone")
    done = turntree("import", "--reparse", "--json").document
    assert (done["bundles_unchanged"], done["turns_added"]) == (1, 0)


def test_watching_imports_complete_turns_and_ends(turntree: Call, claude: Tape) -> None:
    claude.prompt("open?", "still being answered")
    save(Path.home() / ".claude", claude)
    answer = turntree("import", "--follow", "--for", "0.1", "--from", "claude-code")
    assert answer.code == 0
    assert answer.lines == ["2 turns from 1 changed transcript"]
    claude.answer("open!", "msg_open", "Here it is.")
    save(Path.home() / ".claude", claude)
    answer = turntree("import", "--follow", "--for", "0.1")
    assert answer.lines == ["1 turn from 1 changed transcript"]


def test_a_session_keeps_its_origin(turntree: Call, claude: Tape) -> None:
    turntree("import")
    (session,) = turntree("session", "list", "--json").documents
    assert session["origin"] == {"tool": "claude-code", "session_id": A}


@pytest.mark.slow
def test_an_interrupted_import_goes_on_at_the_next_run(
    turntree: Call, home: Path, conninfo: str
) -> None:
    Corpus(seed=7).write(home, SESSIONS, TURNS)
    environ = {**os.environ, "HOME": str(home)}
    importing = subprocess.Popen(
        # Whoever runs in the background is started with Ctrl-C ignored, and so are its children.
        [sys.executable, "-c", f"{HEARS_CTRL_C}; {COMMAND}", "import"],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with psycopg.connect(conninfo, autocommit=True) as connection:
        ends = time.monotonic() + 60
        while not turns_in(connection) and time.monotonic() < ends:
            assert importing.poll() is None, importing.stderr
        importing.send_signal(signal.SIGINT)
        importing.communicate(timeout=60)
        assert importing.returncode == 130
        before, begun = turns_in(connection), sessions_in(connection)
        assert 0 < before < SESSIONS * TURNS
        done = turntree("import", "--json").document
        assert done["sessions_begun"] + begun == SESSIONS
        assert done["turns_added"] == SESSIONS * TURNS - before
        assert turns_in(connection) == SESSIONS * TURNS
    assert turntree("fsck", "--quick").out.startswith("sound")


def turns_in(connection: psycopg.Connection) -> int:
    row = connection.execute("SELECT count(*)::int FROM turntree.turns").fetchone()
    return 0 if row is None else int(row[0])


def sessions_in(connection: psycopg.Connection) -> int:
    row = connection.execute("SELECT count(*)::int FROM turntree.sessions").fetchone()
    return 0 if row is None else int(row[0])


@pytest.mark.timeout(30)
def test_a_pipe_or_a_device_is_refused(turntree: Call, home: Path) -> None:
    os.mkfifo(home / "pipe.jsonl")
    for path in (home / "pipe.jsonl", Path("/dev/zero")):
        answer = turntree("import", str(path))
        assert answer.code != 0
        assert "is a pipe or a device; a file or a folder can be imported" in answer.err


def test_stats_in_a_second_workspace_after_a_bulk_import_read_no_more_than_in_the_first(
    turntree: Call, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        tape = Tape(f"{number:08d}-0000-4000-8000-000000000001", cwd=str(home))
        for turn in range(30):
            tape.exchange(f"question {turn} of {number}")
        save(home / ".claude", tape)
    pages: list[int] = []
    with psycopg.connect(forging(), autocommit=True) as owner:

        def count_pages() -> int:
            # A connection reports the pages it read when it ends, and a command does not wait for
            # that: on a busy machine, pages of the import would count as pages of the figures.
            ends = time.monotonic() + 60
            while count_others(owner):
                assert time.monotonic() < ends, "a command leaves its connection open"
                time.sleep(0.01)
            owner.execute("SELECT pg_stat_force_next_flush()")
            row = owner.execute(
                "SELECT blks_hit + blks_read FROM pg_stat_database"
                " WHERE datname = current_database()"
            ).fetchone()
            assert row is not None
            return int(row[0])

        for workspace in ("tests", "second"):
            monkeypatch.setenv("TURNTREE_WORKSPACE", workspace)
            assert turntree("import", "--json").document["turns_added"] == 600
            before = count_pages()
            assert turntree("stats", "--by", "session").code == 0
            pages.append(count_pages() - before)
            if workspace == "tests":
                # What autovacuum does meanwhile: the planner believes that there is one workspace.
                owner.execute("ANALYZE")
        known = owner.execute(
            "SELECT relname, reltuples FROM pg_class WHERE relnamespace = 'turntree'::regnamespace"
            " AND relname IN ('turns', 'model_calls', 'events', 'sessions', 'segments')"
        ).fetchall()
    assert {name: count >= 40 for name, count in known} == {
        "turns": True, "model_calls": True, "events": True, "sessions": True, "segments": True
    }  # fmt: skip
    # The second workspace has as much as the first, in tables that are twice as large.
    assert pages[1] <= 1.3 * pages[0], pages


def count_others(connection: psycopg.Connection) -> int:
    """Return how many other connections the database has."""
    row = connection.execute(
        "SELECT count(*)::int FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    ).fetchone()
    return 0 if row is None else int(row[0])


def type_prompts(home: Path, *typed: tuple[str, str]) -> None:
    """Have Claude Code remember what was typed: pairs of a session and a prompt."""
    with (home / ".claude" / "history.jsonl").open("a", encoding="utf-8") as file:
        for place, (session, words) in enumerate(typed):
            line = {
                "display": words,
                "pastedContents": {"1": {"id": 1, "type": "text", "content": "a stack trace"}},
                "timestamp": 1_768_849_009_134 + place * 60_000,
                "project": "/srv/shop",
                "sessionId": session,
            }
            file.write(f"{json.dumps(line)}\n")


def test_prompts_of_a_deleted_session_are_imported_and_marked(turntree: Call, claude: Tape) -> None:
    type_prompts(
        Path.home(),
        ("gone-1", "Why does the login fail?"),
        (A, "this one has a transcript"),
        ("gone-1", "Look at [Pasted text #1 +3 lines] please"),
        ("gone-2", "Rename it"),
    )
    with (Path.home() / ".claude" / "history.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"display": "of no session", "timestamp": 1}\n{"half a line')
    done = turntree("import", "--json").document
    assert done["failed"] == {}
    assert (done["sessions_begun"], done["bundles_read"]) == (3, 3)
    listed = {row["label"]: row for row in turntree("session", "list", "--json").documents}
    label = "claude-code/-srv-shop/gone-1"
    assert {label, "claude-code/-srv-shop/gone-2"} < listed.keys()
    assert listed[label]["title"] == "Why does the login fail? (prompts only)"
    shown = turntree("show", label, "--json").document
    assert "Look at a stack trace please" in json.dumps(shown)
    assert turntree("search", "stack", "--json").documents
    assert turntree("import", "--json").document["bundles_unchanged"] == 3


def test_prompts_never_repeat_a_session_that_was_imported_from_its_transcript(
    turntree: Call, claude: Tape
) -> None:
    turntree("import")
    before = turntree("session", "list", "--json").documents
    (transcript,) = (Path.home() / ".claude" / "projects").rglob("*.jsonl")
    kept = transcript.rename(Path.home() / "kept.jsonl")
    type_prompts(Path.home(), (A, "what was typed in it"), ("gone-1", "Rename it"))
    assert turntree("import", "--json").document["sessions_begun"] == 1
    after = turntree("session", "list", "--json").documents
    assert {row["head"] for row in before} < {row["head"] for row in after}
    assert len(after) == len(before) + 1
    # And a transcript that comes back is the session in full.
    kept.rename(transcript.with_name("gone-1.jsonl"))
    assert turntree("import", "--json").document["sessions_moved"] == 1
