"""Reads turns from the bytes that a server sends, after checking them against their digests."""

import json

from turntree.core.errors import DataMissing
from turntree.core.ids import Digest, TurnId
from turntree.core.thread import ThreadTurn
from turntree.core.turn import read, read_lines, verify
from turntree.wire.sealed import SealedTurnDocument


def read_sealed(document: SealedTurnDocument) -> ThreadTurn:
    """Return a turn with its large parts.

    Raises:
        DataMissing: Its bytes are not those that were sealed.
    """
    digest = Digest(document.digest)
    header, _, _ = document.body.partition("\n")
    try:
        parent = json.loads(header).get("parent")
    except (ValueError, AttributeError):
        parent = None
    if verify(document.body, digest, parent) == "broken":
        raise DataMissing(f"the bytes of the turn {document.id} do not match its digest")
    turn = (
        read(document.body, digest)
        if document.whole is None
        else read_lines(header, document.whole, digest)
    )
    return ThreadTurn(
        turn, document.depth, None if not document.parent else TurnId(document.parent)
    )
