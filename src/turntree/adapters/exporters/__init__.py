"""What leaves the ledger, a file per format."""
