"""Counts, spending and prices."""
