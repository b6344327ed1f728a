"""Triggers: signed HTTP requests of other systems that become messages to agents and sessions."""
