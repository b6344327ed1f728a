"""Turns of our own agents that write files: named, listed, blamed, rewound and forked."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Call
from tests.cli.talker import furnish

NOTE: dict[str, Any] = {
    "when": "note",
    "replies": [
        {"tools": [{"tool": "write_note", "args": {"name": "note.txt", "text": "milk\n"}}]},
        {"text": "Noted."},
    ],
}
MORE: dict[str, Any] = {
    "when": "more",
    "replies": [
        {"tools": [{"tool": "write_note", "args": {"name": "note.txt", "text": "milk\neggs\n"}}]},
        {"tools": [{"tool": "write_note", "args": {"name": "list.md", "text": "- eggs\n"}}]},
        {"text": "Noted."},
    ],
}
LOOK: dict[str, Any] = {
    "when": "look",
    "replies": [{"tools": [{"tool": "read_note", "args": {"name": "note.txt"}}]}, {"text": "ok"}],
}
TOOLS = ("--tools", "tests.cli.notes:write_note", "--tools", "tests.cli.notes:read_note")


@pytest.fixture
def talk(turntree: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.setenv("TURNTREE_HOME", str(tmp_path / "home"))
    furnish(turntree, [NOTE, MORE, LOOK])
    assert turntree("send", "main", "hello").code == 0
    assert turntree("snapshot").code == 0
    return turntree


def test_a_native_turn_records_the_files_it_wrote(talk: Call) -> None:
    assert talk("send", "main", "take a note", *TOOLS).code == 0
    assert talk("send", "main", "more of it", *TOOLS).code == 0
    assert "note.txt" in talk("files").out
    assert talk("files", "main~1", "note.txt").out == "milk\n"
    rows = talk(
        "sql", "--json",
        "SELECT f.kind, f.file_path, m.role, m.sequence FROM ledger.message_files f"
        " JOIN ledger.messages m ON m.id = f.message_id ORDER BY f.turn_id, m.sequence",
    ).documents  # fmt: skip
    assert [(row["kind"], Path(row["file_path"]).name, row["role"]) for row in rows] == [
        ("written", "note.txt", "tool"), ("written", "note.txt", "tool"),
        ("written", "list.md", "tool"),
    ]  # fmt: skip
    paths = talk(
        "sql", "--json", "SELECT workspace_path FROM ledger.turns ORDER BY depth"
    ).documents
    assert [row["workspace_path"] for row in paths] == [None, str(Path.cwd()), str(Path.cwd())]


def test_lines_are_blamed_on_native_turns(talk: Call) -> None:
    talk("send", "main", "take a note", *TOOLS)
    talk("send", "main", "more of it", *TOOLS)
    blamed = talk("blame", "note.txt:1")
    assert blamed.code == 0
    assert "take a note" in blamed.out
    assert "more of it" in talk("blame", "note.txt:2").out


def test_files_of_native_turns_go_back_and_fork(talk: Call) -> None:
    talk("send", "main", "take a note", *TOOLS)
    talk("send", "main", "more of it", *TOOLS)
    assert talk("rewind", "main~1", "--files", "--yes").code == 0
    assert Path("note.txt").read_text() == "milk\n"
    assert not Path("list.md").exists()
    assert talk("fork", "main", "other", "--files").code == 0


def test_a_turn_that_only_reads_takes_no_snapshot(talk: Call) -> None:
    talk("send", "main", "take a note", *TOOLS)
    talk("send", "main", "look at it", *TOOLS)
    assert "pinned no files" in talk("files").lines[0]


def test_the_folder_of_an_agents_session_belongs_to_the_agent(talk: Call) -> None:
    talk("agent", "create", "atlas", "--prompt", "You are Atlas.", "--model", "echo")
    talk("send", "@(atlas)", "hello")
    Path("desk").mkdir()
    assert talk("snapshot", "desk", "--session", "atlas:main").code == 0
    owned = talk(
        "sql", "--json",
        "SELECT e.from_kind, e.from_id, n.attributes ->> 'name' AS name FROM edges e"
        " JOIN nodes n ON n.kind = 'Resource' AND n.id = e.to_id"
        " WHERE e.kind = 'OWNS_RESOURCE' ORDER BY e.from_kind",
    ).documents  # fmt: skip
    assert [(row["from_kind"], row["name"]) for row in owned] == [
        ("Agent", "desk"), ("Branch", Path.cwd().name),
    ]  # fmt: skip
    assert owned[0]["from_id"] == "agent:atlas"


def test_a_resource_and_its_snapshots_are_described(talk: Call) -> None:
    described = {
        row["kind"]: row["attributes"]
        for row in talk(
            "sql", "--json", "--whole",
            "SELECT kind, attributes FROM nodes WHERE kind IN ('Resource', 'Snapshot')",
        ).documents
    }  # fmt: skip
    resource, snapshot = described["Resource"], described["Snapshot"]
    assert (resource["kind"], resource["name"]) == ("directory", Path.cwd().name)
    assert resource["capabilities"] == ["fork", "restore", "share", "snapshot"]
    assert resource["scope"].keys() == {"session_id"}
    assert snapshot["resource_ref"] == resource["resource_ref"]
    assert snapshot["external_ref"]["id"].startswith("sha256:")
    assert (snapshot["restorable"], snapshot["consistency"]) == (True, "exact")
    assert {"method", "size_bytes"} <= snapshot.keys()
