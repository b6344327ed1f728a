"""The transcripts of a session that a hook named are found, also without what names it in them."""

from pathlib import Path

from proofs.transcripts.gemini import SESSION, Chat
from turntree.hooks.session_transcripts import list_transcripts
from turntree.transcripts.importer import ToolPaths
from turntree.transcripts.importers.claude_code.importer import ClaudeCodeImporter
from turntree.transcripts.importers.gemini.importer import GeminiImporter


def test_what_the_hook_told_names_a_transcript_that_does_not(tmp_path: Path) -> None:
    chat, places = Chat(), ToolPaths(tmp_path, {})
    chat.exchange("1")
    path = chat.write(tmp_path)
    (whole,) = list_transcripts(GeminiImporter(), SESSION, str(path), places)
    chat.lines[:2] = []
    chat.write(tmp_path)
    (bundle,) = list_transcripts(GeminiImporter(), SESSION, str(path), places)
    assert (bundle.id, bundle.files) == (whole.id, whole.files)
    assert list(list_transcripts(ClaudeCodeImporter(), SESSION, str(path), places)) == []


def test_a_transcript_that_is_gone_is_none(tmp_path: Path) -> None:
    path = tmp_path / "session-2026-11-15T05-31-b4048970.jsonl"
    assert (
        list(list_transcripts(GeminiImporter(), SESSION, str(path), ToolPaths(tmp_path, {}))) == []
    )
