"""A sample of every tool's transcripts, by the name of its importer; synthetic, all of it."""

from collections.abc import Callable, Mapping
from pathlib import Path

from proofs.transcripts import (
    chatgpt,
    claude_ai,
    claude_code,
    codex,
    copilot,
    cursor,
    gemini,
    messages,
    opencode,
)

SAMPLES: Mapping[str, Callable[[Path], Path]] = {
    "chatgpt": chatgpt.write_sample,
    "claude-ai": claude_ai.write_sample,
    "claude-code": claude_code.write_sample,
    "codex": codex.write_sample,
    "copilot": copilot.write_sample,
    "cursor": cursor.write_sample,
    "gemini": gemini.write_sample,
    "messages": messages.write_sample,
    "opencode": opencode.write_sample,
}
"""Each writes into a folder and returns the path an importer is given."""
