"""Handlers of routes that only read, one module per subject."""
