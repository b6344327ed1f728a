"""A server of tools for tests and examples, made with the protocol's own library.

``python -m turntree.testing.tool_server stdio`` reads and writes its standard streams;
``python -m turntree.testing.tool_server http 8765`` listens on this machine. Each call of ``note``
appends a line to the file that ``TOOL_SERVER_LOG`` names, so that a test can count what was done.
``TOOL_SERVER_TEXT`` is the description of ``note``, and ``TOOL_SERVER_KEY`` signs the state of
questions: without it every process draws a key of its own, and refuses the states of others.
"""

import asyncio
import base64
import os
import sys
from pathlib import Path
from typing import Annotated, Any, Final

from mcp.server.mcpserver import Context, MCPServer, RequestStateSecurity
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp_types import ImageContent, TextContent
from pydantic import BaseModel

PICTURE: Final = (
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00"
    b"\x1f\x15\xc4\x89\x00\x00\x00\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\x00\x05\x00\x01\xff\x89\x99"
    b"=\x1d\x00\x00\x00\x00IEND\xaeB`\x82"
)
"""A picture of one pixel."""


class Confirmation(BaseModel):
    """What a person answers."""

    name: str


def make_server() -> MCPServer:
    """Return the server, as its variables describe it."""
    key = os.environ.get("TOOL_SERVER_KEY")
    security = None if key is None else RequestStateSecurity(keys=[key.encode()])
    server = MCPServer("tool-server", request_state_security=security)

    def write(text: str) -> None:
        with Path(os.environ["TOOL_SERVER_LOG"]).open("a", encoding="utf-8") as log:
            log.write(f"{text}\n")

    async def note(text: str, wait_s: float = 0.0) -> str:
        write(text)
        await asyncio.sleep(wait_s)
        return f"noted {text}"

    server.add_tool(note, description=os.environ.get("TOOL_SERVER_TEXT", "Notes a text."))

    async def confirm(topic: str) -> Elicit[Confirmation]:
        return Elicit(f"Who confirms {topic}?", Confirmation)

    @server.tool(description="Does something that a person confirms.")
    async def ask(topic: str, given: Annotated[Confirmation, Resolve(confirm)]) -> str:
        write(topic)
        return f"{given.name} confirms {topic}"

    @server.tool(description="Draws a picture.", structured_output=False)
    async def draw() -> list[Any]:
        data = base64.b64encode(PICTURE).decode()
        return [
            TextContent(text="one pixel"),
            ImageContent(data=data, mime_type="image/png"),
        ]

    @server.resource("memo://text")
    def memo() -> str:
        return "a memo"

    @server.tool(description="Changes the memo.")
    async def change(context: Context) -> str:
        await context.notify_resource_updated("memo://text")
        await context.notify_resources_changed()
        return "changed"

    return server


def main() -> None:
    """Serve until the process is ended."""
    server = make_server()
    match sys.argv[1:]:
        case ["http", port]:
            server.run("streamable-http", port=int(port))
        case _:
            server.run("stdio")


if __name__ == "__main__":
    main()
