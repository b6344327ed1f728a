"""Values and rules of the ledger, pure: no clock, no files, no network."""
