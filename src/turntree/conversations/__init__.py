"""Conversations: people and agents together, and each answer a turn."""
