"""A Python client of the HTTP API, whose verbs are those of the library."""

from turntree.client.client import Client
from turntree.client.sync_client import SyncClient

__all__ = ["Client", "SyncClient"]
