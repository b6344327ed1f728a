"""Intents become facts: knows ports, never adapters, SQL or HTTP."""
