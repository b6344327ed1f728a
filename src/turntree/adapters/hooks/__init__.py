"""Hooks: other tools say what they are doing, and it is kept until somebody reads it."""
