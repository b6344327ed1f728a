"""Secret keys: known by their looks, taken out whole, and nothing else is touched."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turntree.domain.secrets import find_keys, redact

# Made up here: each has the shape of a key and is none.
KEYS = [
    "sk-ant-" + "x1Y2" * 12,
    "sk-proj-" + "q9Z_" * 12,
    "ghp_" + "a1B2" * 9,
    "gho_" + "c3D4" * 9,
    "github_pat_" + "A1" * 11 + "_" + "b" * 59,
    "glpat-" + "e5F6" * 5,
    "xai-" + "g7H8" * 16,
    "AIza" + "i9J0k" * 7,
    "AKIA" + "ABCD1234EFGH5678",
    "xoxb-123456789012-" + "abcd" * 5,
]


@pytest.mark.parametrize("key", KEYS)
def test_a_key_is_replaced_and_nothing_around_it(key: str) -> None:
    told = f'{{"text":"before\\n{key}","more":"after"}}'.encode()
    redacted, times = redact(told)
    mark = hashlib.sha256(key.encode()).hexdigest()[:8]
    assert redacted == f'{{"text":"before\\n[redacted:{mark}]","more":"after"}}'.encode()
    assert times == 1
    assert list(find_keys([told, redacted])) == [0]
    assert redact(redacted) == (redacted, 0)


def test_a_private_key_goes_with_its_body() -> None:
    body = "\\n".join(["MIIEvQIBADANBgkqhkiG9w0BAQEFAASC" * 2] * 4)
    told = f'"-----BEGIN RSA PRIVATE KEY-----\\n{body}\\n-----END RSA PRIVATE KEY-----\\nbye"'
    redacted, times = redact(told.encode())
    assert times == 1
    assert redacted.startswith(b'"[redacted:')
    assert redacted.endswith(b']\\nbye"')


@pytest.mark.parametrize(
    "harmless",
    [
        "task-force-of-people-who-work-together-daily",
        "sk-" + "a" * 50,
        "AKIA",
        "the PRIVATE KEY-----",
    ],
)
def test_words_stay(harmless: str) -> None:
    assert redact(harmless.encode()) == (harmless.encode(), 0)


@given(st.binary(max_size=200))
def test_what_holds_no_key_comes_back_as_it_was(data: bytes) -> None:
    redacted, times = redact(data)
    assert times or redacted is data
