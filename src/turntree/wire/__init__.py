"""Request and response shapes: knows JSON's names, and never the store."""
