"""Commands for other tools: import, export, handoff."""
