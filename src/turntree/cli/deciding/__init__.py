"""Commands with which a person decides what waits for them."""
