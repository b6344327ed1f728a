"""Helpers that several importers use; not an importer."""
