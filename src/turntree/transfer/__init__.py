"""Move a ledger: archives, which are files that every row can be verified in."""
