"""Keepers: what looks after resources, a module a kind; ``shadow`` is where they keep states."""
