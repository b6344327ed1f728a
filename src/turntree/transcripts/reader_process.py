"""A process that reads transcripts: ``python -m turntree.transcripts.reader_process``.

Wires an importer and the store's packing together, and no more than that, so that it starts at
once. See ``runtime.readers``. Must never load a database driver.
"""

import gc
import sys
from importlib.metadata import entry_points

from turntree.transcripts.importer import Importer
from turntree.transcripts.packing import Packer
from turntree.transcripts.reader_pool import serve

IMPORTERS = "turntree.importers"
COLLECTED_EVERY = 50_000
"""Reading makes objects by the thousand, and next to none of them in circles."""


def main() -> None:
    """Read bundles for an importing process, until it closes the pipe."""
    gc.set_threshold(COLLECTED_EVERY)
    serve(_find_importer, Packer(), sys.stdin.buffer, sys.stdout.buffer)


def _find_importer(origin: str) -> Importer | None:
    for point in entry_points(group=IMPORTERS, name=origin):
        importer: Importer = point.load()()
        return importer
    return None


if __name__ == "__main__":
    main()
