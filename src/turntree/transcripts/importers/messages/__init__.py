"""Plain files of messages, read as turns."""
