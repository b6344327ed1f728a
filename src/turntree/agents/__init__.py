"""Task assignment, task supervision and one-off inference."""
