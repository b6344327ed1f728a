"""Where code of others runs: a module for each kind of sandbox."""
