"""Handlers that change something; each answer has its command line and its undo."""
