"""What commands say of a shard."""

from typing import Final

from turntree.boot.shards import ShardContent
from turntree.cli.output.text import clean, counted

NAMES_MAX: Final = 8
"""Names of workspaces that are shown."""


def describe_content(content: ShardContent | None) -> str:
    """Return what is in a shard; None if its database does not answer."""
    if content is None:
        return "its database does not answer"
    said = counted(len(content.names), "workspace")
    if content.misplaced:
        names = ", ".join(map(clean, content.misplaced[:NAMES_MAX]))
        said += f"; not served, because their id or name leads to another shard: {names}"
    return said
