"""An embedded server that lacks fixes is noticed, without asking anybody."""

from datetime import date, timedelta

import pytest

from turntree.db.embedded.minor_versions import AGE_MAX_DAYS, LATEST_KNOWN, find_lag

MAJOR, (MINOR, RELEASED) = max(LATEST_KNOWN.items())


@pytest.mark.parametrize(
    ("minor", "age", "told"),
    [
        (MINOR, 0, None),
        (MINOR, AGE_MAX_DAYS, None),
        (MINOR, AGE_MAX_DAYS + 1, "days ago"),
        (MINOR - 1, 0, f"{MAJOR}.{MINOR} came on"),
        (MINOR + 1, 1000, None),
    ],
)
def test_a_minor_version_is_behind_by_number_or_by_age(
    minor: int, age: int, told: str | None
) -> None:
    found = find_lag(f"{MAJOR}.{minor}", RELEASED + timedelta(days=age))
    assert found is None if told is None else found is not None and told in found


def test_what_is_not_known_is_not_judged() -> None:
    assert find_lag("99.1", date(2030, 1, 1)) is None
    assert find_lag("18beta1", date(2030, 1, 1)) is None
