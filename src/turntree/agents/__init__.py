"""Agents at work: task assignment, supervision and one-off inference."""
