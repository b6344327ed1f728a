"""Who may call the API: rights, callers with keys and tokens, and the first admin."""
