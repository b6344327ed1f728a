"""Models of meanings."""
