"""Tools that models may have called."""
