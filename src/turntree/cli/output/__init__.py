"""How commands print: text, tables, diffs, progress."""
