"""Commands that read the history: log, show, search, diff, blame, why."""
