"""Prompts, context windows, messages as models see them, and providers."""
