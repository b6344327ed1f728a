"""What an operator sees of a process: its figures, and the spans of its runs."""
