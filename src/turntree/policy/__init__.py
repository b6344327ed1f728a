"""Judges tool calls before they are made: policies, and what they decide."""
