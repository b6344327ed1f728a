"""Judges the calls of runs, and reads how those before them were judged."""
