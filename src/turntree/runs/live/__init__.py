"""Text of runs in progress, before it is recorded, and what passes it to followers."""
