"""Commands for setup: up, server, hook, config, doctor, demo."""
