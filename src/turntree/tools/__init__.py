"""Tools that a model may call: Python functions and code programs."""
