"""Models that turn a text into a vector."""
