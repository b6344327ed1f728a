"""What agents ask of the ledger: turns to find, read and cite, and work to begin from them."""
