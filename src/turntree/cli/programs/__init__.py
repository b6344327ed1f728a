"""Commands for programs: create, configure, invoke, assign."""
