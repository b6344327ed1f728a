"""A Python client of the HTTP API, whose verbs are those of the library."""

from turntree.client.client import Client

__all__ = ["Client"]
