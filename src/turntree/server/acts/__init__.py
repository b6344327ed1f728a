"""Handlers of routes that change something, one module per subject."""
