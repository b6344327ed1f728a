"""The ledger: turns, sessions, threads, revisions, the feed and raw records."""
