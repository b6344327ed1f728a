"""The page that says who may do what, against the table of routes and the rights of the roles."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from turntree.auth.api_key import KEY_DAYS_DEFAULT, KEY_DAYS_MAX
from turntree.auth.member import (
    INVITATION_DAYS_DEFAULT,
    INVITATION_DAYS_MAX,
    MANAGE_KEYS,
    RIGHTS,
    ROLES,
)
from turntree.server.access.rights import INVOKE, READ
from turntree.server.access.verified_callers import VERIFIED_S
from turntree.server.routes import NETWORK_ROUTES

PAGE: Final = Path(__file__).parents[2] / "docs/explanation/who-may-do-what.md"
DEPLOY: Final = PAGE.parents[1] / "howto/deploy-for-a-team.md"
_ROUTE: Final = re.compile(r"`((?:GET|POST) /[^`]+)`")
OTHERS: Final = "all others"


def rows() -> Mapping[str, list[str]]:
    """Return the cells of the first table by the action of each row."""
    text = PAGE.read_text(encoding="utf-8").partition("\n| action |")[2].partition("\n\n")[0]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()[2:]]
    return {row[0].strip("`"): row[1:] for row in cells}


def test_table_has_every_right_that_a_route_requires() -> None:
    required = {str(route.right) for route in NETWORK_ROUTES if route.right is not None}
    assert rows().keys() == required | {str(MANAGE_KEYS)}


def test_routes_of_each_right_are_those_of_the_table() -> None:
    listed = {action: set(_ROUTE.findall(cells[1])) for action, cells in rows().items()}
    assert rows()[str(READ)][1] == OTHERS
    for action, routes in listed.items():
        actual = {f"{one.method} {one.path}" for one in NETWORK_ROUTES if str(one.right) == action}
        assert routes == (set() if action == str(READ) else actual), action


def test_roles_of_each_right_are_those_of_the_table() -> None:
    for action, (_, _, *cells) in rows().items():
        for role, cell in zip(ROLES, cells, strict=True):
            permitted = any(
                RIGHTS[role].permits(right)
                for right in [*{one.right for one in NETWORK_ROUTES}, MANAGE_KEYS]
                if right is not None and str(right) == action
            )
            granted = role == "guest" and action == str(INVOKE)
            assert cell == ("where granted by name" if granted else "yes" if permitted else "no")


def test_open_routes_are_those_of_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8").partition("callers who are not known")[2]
    named = set(_ROUTE.findall(text.partition("\n\n")[0]))
    assert named == {f"{one.method} {one.path}" for one in NETWORK_ROUTES if one.is_open}


def test_durations_are_those_of_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert f"{KEY_DAYS_DEFAULT} days unless told otherwise, at most ten years" in text
    assert KEY_DAYS_MAX // 365 == 10
    assert f"{INVITATION_DAYS_DEFAULT} days unless told otherwise, at most a year" in text
    assert INVITATION_DAYS_MAX == 365
    assert (VERIFIED_S, "half a\nsecond" in text) == (0.5, True)
