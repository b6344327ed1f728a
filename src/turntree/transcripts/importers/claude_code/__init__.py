"""Claude Code's transcripts, read as turns."""
