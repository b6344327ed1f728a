"""The files of turns over HTTP."""

from turntree.client.connection import HttpConnection
from turntree.core.value import Facet, value
from turntree.wire.files import BlameDocument, FileContent, FileList, PathDiff


@value
class FilesApi(Facet):
    """The facet ``client.files``."""

    http: HttpConnection

    async def list_entries(self, revision: str) -> FileList:
        """Return the files that a turn left, with those that it changed."""
        return await self.http.get("/turns/{revision}/files", FileList, revision=revision)

    async def diff(self, revision: str, path: str) -> PathDiff:
        """Return what a turn changed in a file."""
        return await self.http.get(
            "/turns/{revision}/files/diff", PathDiff, {"path": path}, revision=revision
        )

    async def read(self, revision: str, path: str) -> FileContent:
        """Return a file as a turn left it."""
        return await self.http.get(
            "/turns/{revision}/files/content", FileContent, {"path": path}, revision=revision
        )

    async def blame(self, revision: str, path: str) -> BlameDocument:
        """Return which turn wrote each line of a file."""
        return await self.http.get(
            "/turns/{revision}/blame", BlameDocument, {"path": path}, revision=revision
        )
