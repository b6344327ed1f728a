"""Proofs and checks through the command line, and an export that proves itself without us."""

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest
import rfc8785

from tests.cli.conftest import Call, forging
from tests.cli.hint_runner import list_hints
from turntree.boot.open import Settings, open_tree
from turntree.core.message import assistant, user


def test_a_whole_thread_is_verified(reader: Call) -> None:
    answer = reader("verify")
    assert answer.code == 0
    assert answer.out.startswith("verified 7/7   ")


def test_an_erased_message_is_said_and_no_fault(planted: Call) -> None:
    erase("demo/fix-login", 0)
    answer = planted("verify")
    assert answer.code == 0
    assert "erased   1 turn" in answer.out
    assert "taken out on request" in planted("show", "HEAD").out


def test_a_changed_byte_is_broken(planted: Call) -> None:
    tamper("Who calls redirect()")
    answer = planted("verify")
    assert answer.code == 1
    assert answer.out.startswith("verified 6/7")
    assert "broken" in answer.out
    assert len(planted("verify", "--json").document["broken"]) == 1


def test_fsck_finds_nothing_in_a_sound_store(reader: Call) -> None:
    assert reader("fsck").out.startswith("sound")
    answer = reader("fsck", "--quick", "--json")
    assert (answer.code, reader("fsck", "--json").document["full"]) == (0, True)
    assert answer.document == {
        "kind": "summary", "sound": True, "full": False, "faults": 0, "findings": 0, "changes": 0,
        "dry_run": False,
    }  # fmt: skip


def test_fsck_exits_with_one_and_names_the_invariant(planted: Call) -> None:
    tamper("Who calls redirect()")
    answer = planted("fsck", "--json")
    assert answer.code == 1
    *findings, summary = answer.documents
    assert {"kind", "invariant", "sentence", "subject", "severity"} == findings[0].keys()
    assert "I12" in {found["invariant"] for found in findings}
    assert (summary["sound"], summary["findings"]) == (False, len(findings))
    assert planted("fsck").code == 1


def test_fsck_rebuilds_what_follows_from_the_facts(planted: Call) -> None:
    with psycopg.connect(
        forging(),
        options="-c session_replication_role=replica",
    ) as connection:
        connection.execute("DELETE FROM turntree.tool_calls")
    assert "--repair-derived" in planted("fsck").err
    told = planted("fsck", "--repair-derived", "--dry-run")
    assert (told.code, "tool_calls" in told.out, "would change" in told.err) == (1, True, True)
    repaired = planted("fsck", "--repair-derived", "--json")
    assert repaired.code == 0
    assert {"kind", "table", "subject", "removed", "added"} == repaired.documents[0].keys()
    again = planted("fsck", "--repair-derived")
    assert (again.code, again.err) == (0, "0 places rebuilt\n")
    assert planted("fsck", "--dry-run").code == 2


def test_a_secret_is_a_warning_and_no_fault(planted: Call) -> None:
    secret = "AKIA" + "IOSFODNN7EXAMPLE"

    async def act() -> None:
        settings = replace(Settings.from_environment(os.environ), redacts=False)
        async with open_tree(settings) as tree:
            await tree.turns.record("demo/opus", [user(f"use {secret}")], [assistant("no")])

    anyio.run(act)
    answer = planted("fsck")
    assert answer.code == 0
    assert "warning" in answer.out
    assert "revoke" in answer.err
    warnings = planted("fsck", "--json").documents
    assert warnings[0]["severity"] == "warning"
    (hint,) = list_hints("", answer.err)
    assert hint.text in [f"turntree show {one.get('subject')}" for one in warnings]


def test_an_export_proves_itself_without_us(planted: Call) -> None:
    erase("demo/fix-login", 0)
    lines = planted("export", "--all").documents
    turns = [line for line in lines if line["kind"] == "turn"]
    digests: dict[str | None, str | None] = {None: None}
    for turn in turns:
        header = turn["header"]
        assert turn["digest"] == sha256(header)
        assert header["messages"]["digest"] == sha256([*map(message_digest, turn["messages"])])
        # Parents come before children, and the chain is closed.
        assert header.get("parent") == digests[turn["parent"]]
        digests[turn["id"]] = turn["digest"]
    assert len(turns) == 16
    assert {line["label"] for line in lines if line["kind"] == "session"} == {
        "demo/fix-login", "demo/middleware", "demo/opus", "demo/worker-1",
    }  # fmt: skip


def test_an_export_of_a_thread_goes_into_a_file(reader: Call, tmp_path: Path) -> None:
    file = tmp_path / "thread.jsonl"
    answer = reader("export", "demo/opus", "-o", str(file))
    assert (answer.out, answer.err) == ("", "4 turns and 1 session written\n")
    depths = [json.loads(line).get("depth") for line in file.read_text().splitlines()[:-1]]
    assert depths == [1, 2, 3, 4]


def test_the_doctor_finds_a_sound_database_sound(reader: Call) -> None:
    answer = reader("doctor", "--json")
    assert answer.code == 0
    assert {one["name"]: one["verdict"] for one in answer.documents} == dict.fromkeys(
        ("server", "migrations", "roles", "walls", "search", "size", "plans", "hooks"), "ok"
    )


def test_the_doctor_sees_a_wall_that_is_down(planted: Call) -> None:
    with psycopg.connect(forging(), autocommit=True) as connection:
        connection.execute("ALTER TABLE turntree.turns DISABLE ROW LEVEL SECURITY")
    answer = planted("doctor")
    assert answer.code == 1
    assert "without row-level security: turns" in answer.out


def test_the_doctor_sees_a_function_that_lends_other_rights(planted: Call) -> None:
    with psycopg.connect(forging(), autocommit=True) as connection:
        connection.execute("ALTER FUNCTION turntree.search_words OWNER TO turntree")
    answer = planted("doctor")
    assert answer.code == 1
    assert "not turntree_searcher's: search_words" in answer.out
    assert planted("status").code == 0
    assert planted("doctor").code == 0


def test_the_doctor_starts_nothing(
    bare: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TURNTREE_DATABASE_URL")
    monkeypatch.setenv("TURNTREE_HOME", str(tmp_path / "home"))
    answer = bare("doctor", "--json")
    server = next(one for one in answer.documents if one["name"] == "server")
    assert (server["verdict"], server["next"]) == ("warn", "turntree on")
    assert not (tmp_path / "home").exists()


def erase(revision: str, sequence: int) -> None:
    async def act() -> None:
        async with open_tree(Settings.from_environment(os.environ)) as tree:
            await tree.turns.erase(revision, sequence, reason="asked for")

    anyio.run(act)


def tamper(words: str) -> None:
    with psycopg.connect(forging(), autocommit=True) as connection:
        connection.execute("ALTER TABLE turntree.turn_bodies DISABLE TRIGGER refuse_update")
        connection.execute(
            "UPDATE turntree.turn_bodies SET body = replace(body, %(words)s, 'Nobody asked') "
            "WHERE position(%(words)s IN body) > 0",
            {"words": words},
        )
        connection.execute("ALTER TABLE turntree.turn_bodies ENABLE TRIGGER refuse_update")


def sha256(document: Any) -> str:
    return "sha256:" + hashlib.sha256(rfc8785.dumps(document)).hexdigest()


def message_digest(message: dict[str, Any]) -> str:
    return str(message["erased"]) if "erased" in message else sha256(message)
