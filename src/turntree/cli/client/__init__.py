"""Commands over a server: what ``--server`` makes of them."""
