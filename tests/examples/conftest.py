"""What a page makes the command line hint at is followed, as in the tests of the command line."""

from tests.cli.conftest import hints, pytest_runtest_call

__all__ = ["hints", "pytest_runtest_call"]
