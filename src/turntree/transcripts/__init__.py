"""Other tools' sessions: import, export and handoff."""
