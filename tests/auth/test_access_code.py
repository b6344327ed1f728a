"""Codes: what is in them, and which texts are none."""

import random
from uuid import UUID

import pytest

from turntree.auth.access_code import CODE_CHARS, INVITATION, KEY, make_code, parse_code
from turntree.core.errors import PermissionDenied

WORKSPACE = UUID("01a0c3a8-2001-7000-8000-0000000000ff")
CODE = make_code(KEY, WORKSPACE, "id", "secret")


def test_a_code_names_its_workspace_and_its_id() -> None:
    assert len(CODE.text) == CODE_CHARS
    parsed = parse_code(KEY, CODE.text)
    assert parsed == CODE
    assert (parsed.workspace, parsed.id) == (str(WORKSPACE), CODE.text.split("_")[2])
    assert CODE.text not in repr(CODE)
    for workspace in (UUID(int=0), UUID(int=(1 << 128) - 1)):
        made = make_code(KEY, workspace, "id", "secret")
        assert parse_code(KEY, made.text).workspace == str(workspace)


def test_two_codes_differ_in_id_secret_and_digest() -> None:
    other = make_code(KEY, WORKSPACE, "other", "other secret")
    assert (other.id, other.digest) != (CODE.id, CODE.digest)
    assert other.text.split("_")[3] != CODE.text.split("_")[3]


def test_a_changed_character_is_found_without_a_query() -> None:
    draw = random.Random(1)
    for _ in range(500):
        at = draw.randrange(len(CODE.text))
        changed = CODE.text[:at] + draw.choice("0aZ_-. é") + CODE.text[at + 1 :]
        if changed != CODE.text:
            with pytest.raises(PermissionDenied):
                parse_code(KEY, changed)


@pytest.mark.parametrize(
    "text",
    [
        "", "ttk_", CODE.text + " ", CODE.text[:-1], CODE.text.replace("ttk", "tti"),
        f"ttk_{'z' * 22}_{'0' * 12}_{'0' * 49}", "ttk" + "_" * 86, "x" * 100_000,
    ],
)  # fmt: skip
def test_other_texts_are_no_code_and_are_not_repeated(text: str) -> None:
    with pytest.raises(PermissionDenied) as refused:
        parse_code(KEY, text)
    assert CODE.text[40:] not in str(refused.value)


def test_an_invitation_is_no_key() -> None:
    invitation = make_code(INVITATION, WORKSPACE, "id", "secret")
    with pytest.raises(PermissionDenied, match="not a valid ttk_"):
        parse_code(KEY, invitation.text)
