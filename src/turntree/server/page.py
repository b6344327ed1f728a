"""The built page: hashed assets that never change, and one document for every other path.

The build writes ``page/`` beside this module. A path that is not a file of the build is a place
inside the page, which reads it from the address, as it does the workspace: over the network all
workspaces share one document and its assets.
"""

import hashlib
import mimetypes
from collections.abc import Mapping
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from turntree.core.value import value

FOLDER: Final = Path(__file__).parent / "page"
INDEX: Final = "index.html"
ICON: Final = "icon.svg"
ASSETS: Final = "assets/"
"""Files below it have a digest of their content in their names."""
MISSING: Final = """\
The page of this installation has not been built.

An installed release carries it. In a clone of the source, build it once:

    just web

The API answers without it, below /api/v1.
"""
_FOREVER: Final = "public, max-age=31536000, immutable"
# What the system's table lacks or gets wrong, and what nosniff would then refuse to run.
_TYPES: Final[Mapping[str, str]] = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}


@value
class PageFile:
    """A file of the build, read once."""

    body: bytes
    media: str
    tag: str


class Page:
    """The page as an ASGI application."""

    def __init__(self, folder: Path = FOLDER) -> None:
        """Serve a folder; files are read when they are first asked for."""
        self._folder = folder
        self._read = cache(self._load)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        response = self.respond(Request(scope))
        await response(scope, receive, send)

    def respond(self, request: Request) -> Response:
        """Return a file of the build, or the page's document."""
        if request.method not in ("GET", "HEAD"):
            return PlainTextResponse("only GET\n", HTTPStatus.METHOD_NOT_ALLOWED)
        path = request.url.path.lstrip("/")
        names = _list_files(self._folder)
        if INDEX not in names:
            return PlainTextResponse(MISSING, HTTPStatus.SERVICE_UNAVAILABLE)
        is_asset = path.startswith(ASSETS)
        if is_asset and path not in names:
            return PlainTextResponse("there is no such file\n", HTTPStatus.NOT_FOUND)
        file = self._read(path if path in names else INDEX)
        headers = {"etag": file.tag, "cache-control": _FOREVER if is_asset else "no-cache"}
        if request.headers.get("if-none-match") == file.tag:
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        return Response(file.body, media_type=file.media, headers=headers)

    def _load(self, name: str) -> PageFile:
        path = self._folder / name
        body = path.read_bytes()
        media = _TYPES.get(path.suffix) or mimetypes.guess_type(name)[0]
        tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        return PageFile(body, media or "application/octet-stream", tag)


def _list_files(folder: Path) -> frozenset[str]:
    """Return the files of the build, so that no path of a request ever names one outside it."""
    return frozenset(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )
