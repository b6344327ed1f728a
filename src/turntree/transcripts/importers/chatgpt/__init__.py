"""ChatGPT's exports, read as turns."""
