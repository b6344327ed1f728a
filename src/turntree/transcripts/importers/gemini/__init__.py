"""Gemini CLI's chats, read as turns."""
