"""Where programs work."""
