"""A process that reads transcripts: ``python -m turntree.transcripts.reader_process``.

Combines an importer with the packing and loads nothing else, above all no database driver, so that
it starts quickly. See ``reader_pool``.
"""

import gc
import sys
from importlib.metadata import entry_points

from turntree.transcripts.importer import Importer
from turntree.transcripts.packing import Packer
from turntree.transcripts.reader_pool import serve

IMPORTERS = "turntree.importers"
COLLECTED_EVERY = 50_000
"""Parsing creates objects by the thousand, and hardly any reference cycles."""


def main() -> None:
    """Read transcripts for an importing process, until that closes the pipe."""
    gc.set_threshold(COLLECTED_EVERY)
    serve(_find_importer, Packer(), sys.stdin.buffer, sys.stdout.buffer)


def _find_importer(origin: str) -> Importer | None:
    for point in entry_points(group=IMPORTERS, name=origin):
        importer: Importer = point.load()()
        return importer
    return None


if __name__ == "__main__":
    main()
