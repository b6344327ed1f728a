"""Sessions of Copilot CLI, as written here by hand."""

from pathlib import Path

from proofs.transcripts.copilot import SESSION, EventLog, write_sample
from turntree.core.message import Text, ToolResult, ToolUse
from turntree.core.message_context import files_of
from turntree.core.usage import Usage
from turntree.testing.contracts.importer import check_importer
from turntree.transcripts.drafts import Projection
from turntree.transcripts.importer import ToolPaths
from turntree.transcripts.importers.copilot import CopilotImporter


def project(path: Path) -> Projection:
    importer = CopilotImporter()
    (bundle,) = importer.open(path)
    return importer.project(bundle, list(importer.read(bundle)))


def test_a_session_becomes_turns_with_their_calls_files_and_usage(tmp_path: Path) -> None:
    projection = project(write_sample(tmp_path))
    first, second, third = projection.turns
    assert [part for said in first.reply for part in said.parts] == [
        ToolUse("call_1", "edit", {"path": "/srv/shop/cart.py", "old_str": "a"}),
        ToolResult("call_1", "ok", "edited"),
        Text("Done."),
    ]
    assert [(file.kind, file.path) for said in first.reply for file in files_of(said)] == [
        ("written", "/srv/shop/cart.py")
    ]
    assert [call.usage for call in first.calls] == [Usage(60, 5, 40)] * 2
    assert (first.model, first.outcome, second.parent) == ("gpt-4.1", "completed", first.key)
    (failed,) = second.reply[1].parts
    assert failed == ToolResult("call_2", "error", "exit code 1")
    (session,) = projection.sessions
    assert (session.id, session.label) == (SESSION, "copilot/srv-shop/46598e24")
    assert (session.title, session.head) == ("Round the total", third.key)
    assert session.details["cwd"] == "/srv/shop"


def test_a_turn_that_waits_for_a_tool_is_open_until_the_next_question(tmp_path: Path) -> None:
    log = EventLog()
    log.ask("Run it")
    log.answer("", ("call_1", "bash", {"command": "sleep 9"}))
    log.save(tmp_path)
    assert [turn.open for turn in project(tmp_path).turns] == [True]
    log.tell("abort", reason="user")
    log.ask("Never mind")
    log.answer("Fine.")
    log.save(tmp_path)
    assert [(turn.open, turn.outcome) for turn in project(tmp_path).turns] == [
        (False, "interrupted"),
        (False, "completed"),
    ]


def test_sessions_are_found_in_the_folder_that_the_tool_uses(tmp_path: Path) -> None:
    file = EventLog().save(tmp_path / "elsewhere")
    places = ToolPaths(tmp_path, {"COPILOT_HOME": str(tmp_path / "elsewhere")})
    (bundle,) = CopilotImporter().discover(places)
    assert bundle.files == (file,)
    assert list(CopilotImporter().open(file.parent)) == [bundle]
    check_importer(CopilotImporter(), file)


def test_events_of_an_unknown_kind_are_counted(tmp_path: Path) -> None:
    log = EventLog()
    log.tell("novelty", of="tomorrow")
    log.save(tmp_path)
    assert project(tmp_path).unknown == {"novelty": 1}
