"""What a process of the command line hints at is followed, as in the tests of the command line."""

from tests.cli.conftest import hints

__all__ = ["hints"]
