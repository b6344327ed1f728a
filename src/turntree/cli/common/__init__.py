"""Helpers shared by several commands."""
