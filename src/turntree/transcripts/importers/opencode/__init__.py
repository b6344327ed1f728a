"""opencode's sessions, read as turns."""
