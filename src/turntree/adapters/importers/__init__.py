"""Readers of other tools' transcripts, a module a tool; ``reading`` is what they share."""
