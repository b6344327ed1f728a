"""Codex's rollouts, read as turns."""
