"""A client without ``async``; ``sync_client.pyi`` has its types, generated from ``Client``."""

from turntree.client.client import Client
from turntree.system.blocking import BlockingTree


class SyncClient(BlockingTree):
    """What a key opens on a server, for programs that do not use ``async``."""

    def __init__(self, url: str, key: str, *, allow_http: bool = False) -> None:
        """Take the URL of a workspace, and a key, as ``Client`` does."""
        super().__init__(lambda: Client(url, key, allow_http=allow_http), "client")
