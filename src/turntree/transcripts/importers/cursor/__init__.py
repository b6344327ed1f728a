"""Cursor's conversations, read as turns."""
