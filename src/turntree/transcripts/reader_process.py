"""A process that reads transcripts: ``python -m turntree.transcripts.reader_process``.

Loads the packing and, with its first task, an importer, but no database driver and no metadata of
installed packages, so that it starts quickly. See ``reader_pool``.
"""

import gc
import sys

from turntree.transcripts.packing import Packer
from turntree.transcripts.reader_pool import serve

COLLECTED_EVERY = 50_000
"""Parsing creates objects by the thousand, and hardly any reference cycles."""


def main() -> None:
    """Read transcripts for an importing process, until that closes the pipe."""
    gc.set_threshold(COLLECTED_EVERY)
    serve(Packer(), sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main()
