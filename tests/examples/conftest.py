"""What a page makes the command line hint at is followed, as in the tests of the command line."""

from tests.cli.conftest import hints

__all__ = ["hints"]
