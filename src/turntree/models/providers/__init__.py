"""Clients of model services, one module per protocol."""
