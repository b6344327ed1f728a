"""Check the ledger and the snapshot store: verify, fsck and repair."""
