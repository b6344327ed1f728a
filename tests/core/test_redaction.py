"""Secret keys: known by their looks, taken out whole, and nothing else is touched."""

import hashlib
import json
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turntree.core.redaction import Redactor, find_keys, list_live, redact, redact_all

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
    "ghr_" + "a1B2" * 9,
    "glpat-" + "e5F6" * 7,
    "ASIA" + "ABCD1234EFGH5678",
    "GOCSPX-" + "aB3dE_f-" * 3,
    "xoxe.xoxp-1-" + "Mi0yLTEy" * 3,
    "xapp-1-A0123456-1234567890-" + "abcdef01" * 4,
    "https://hooks.slack.com/services/T00000000/B00000000/" + "X1y2" * 6,
    "sk_" + "live_" + "4eC39HqL" * 3,
    "rk_" + "test_" + "4eC39HqL" * 3,
    "whsec_" + "aB3d" * 8,
    "npm_" + "aB3d" * 9,
    "pypi-AgEIcHlwaS5vcmcCJ" + "aB3d" * 30,
    "hf_" + "aB3d" * 8 + "xy",
    "gsk_" + "aB3d" * 13,
    "r8_" + "aB3d" * 9 + "x",
    "dop_v1_" + "ab12" * 16,
    "AGE-SECRET-KEY-1" + "QPZRY9X8" * 7,
    "AccountKey=" + "aB3d" * 21 + "aB==",
    "tt1.eyJhIjoxfQ12345678.c2lnbmF0dXJlc2lnbmF0dXJl",
    "ttk_" + "aB3" * 7 + "x_" + "ab12" * 3 + "_" + "aB3d5F7" * 7,
    "tti_" + "aB3" * 7 + "x_" + "ab12" * 3 + "_" + "aB3d5F7" * 7,
    "SG." + "aB3d" * 5 + "aB." + "aB3d" * 10 + "aB3",
    "hvs." + "aB3d" * 6,
    "ya29." + "aB3d-_" * 8,
    "123456789:AA" + "aB3" * 11,
    "ATATT3xFfGF0" + "aB3d" * 20,
    "shpat_" + "ab12" * 8,
    "dckr_pat_" + "aB3" * 9,
    "lin_api_" + "aB3d" * 10,
    "ntn_" + "aB3d" * 11,
    "glsa_" + "aB3d" * 8 + "_ab12cd34",
    "sbp_" + "ab12" * 10,
    "pscale_tkn_" + "aB3d" * 8,
    "pplx-" + "aB3d" * 12,
    "PMAK-" + "ab12" * 6 + "-" + "ab" * 17,
    "NRAK-" + "AB3" * 9,
]
VALUES = {
    "DB_PASSWORD=@": "hunter2hunter2",
    "export GITHUB_TOKEN='@'": "abc123def456ghi7",
    "DJANGO_SECRET: @": "k7-1lqz0p!x",
    '"OPENAI_API_KEY": "@"': "0123456789abcdef",
    "AWS_SECRET_ACCESS_KEY=@": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "aws_secret_access_key = @": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    '"SecretAccessKey": "@"': "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "curl -H 'Authorization: Bearer @'": "aB3dEf6hIj9lMn2p",
    '"authorization": "Basic @"': "YWRhOmh1bnRlcjIx",
    "postgres://admin:@@db.internal:5432/prod": "S3cretPassw0rd",
    "https://:@@git.example.org/x.git": "abcdef",
}
"""Secrets known by what stands before them, each where the sign @ stands first or doubled."""
ORDINARY = r"""
def login(password: str, token: str | None = None) -> Session:
    TOKEN = os.environ["TOKEN"]
    PASSWORD = getpass.getpass()
    API_KEY = settings.api_key
    SECRET_KEY = get_secret("django1", version=2)
    GITHUB_TOKEN: ${{ secrets.GITHUB_TOKEN }}
    PASSWORD=$DB_PASSWORD1 TOKEN=${TOKEN:-none} SECRET=$(cat /run/secrets/key1)
    API_KEY=your-api-key-1 TOKEN=<token-2> PASSWORD=changeme1 SECRET=xxxxxxxx1
    PRIVATE_KEY=/etc/ssl/private/key1.pem SSH_KEY=~/.ssh/id_ed25519 MAX_TOKEN=40960000
    return requests.post(f"https://{user}:{password}@{host}/", json={"password": password})
DATABASE_URL=postgresql://user:password@localhost:5432/app
git clone git@github.com:org/repo.git; see https://example.org:8080/a@b and mailto:a@b.org
http://localhost:3000/@fs/x  docker://registry:5000/team/image@sha256:0123456789abcdef
PRIMARY_KEY = "id", CACHE_KEY="models:v2:list", ON_KEY_DOWN=handler2, TOKEN_LIMIT=200000
the secret is that the password is a token: a key to the SECRET of the PASSWORD. TOKENS: 1234
npm_config_registry npm_lifecycle_event hf_hub_download gsk_ test sk-learn sk_live_ whsec_
class ASIA: pass
headers={"Authorization": f"Bearer {token}"}; Authorization: Bearer $API_TOKEN_2; Bearer <token-123>
"Authorization": "Bearer your-token-here-123", Authorization: Basic authentication for version 2
MSG.format(name) hvs.is_a_module ya29. SG.x 12345678:AAA pplx-test shpat_ lin_api_key_of_the_team
the ntn_ prefix, sbp_function_of_two_variables, glsa_sample_rate_in_hertz, dckr_pat_ and ATATT3
eyJ is how a base64 object begins; eyJhbGciOiJIUzI1NiJ9 alone is a header and no token
"cache_read_input_tokens": 7, "signature": "EqQBCkYIBxgCKkDq", "sessionId": "aaaaaaaa-0000-4000"
-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A\n-----END PUBLIC KEY-----
ttk_ and tti_ begin nothing here, nor does a button_ttk_frame_with_a_long_name_of_widgets_x1
tt1. is a prefix, and so is hooks.slack.com/services/ with nothing behind it
"""
"""Code and prose that talk of secrets and hold none."""


@pytest.mark.parametrize("key", KEYS)
def test_redact_replaces_only_the_key(key: str) -> None:
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


@pytest.mark.parametrize("newline", ["\\n", "\\\\n", "\\\\\\\\n", "\n"])
def test_redact_service_account_with_any_line_breaks(newline: str) -> None:
    key = newline.join(["-----BEGIN PRIVATE KEY-----", "MIIEvQIBADANBgkq", "hkiG9w0B+/=="])
    told = f'"private_key": "{key}{newline}-----END PRIVATE KEY-----{newline}", "id": 1'
    redacted, times = redact(told.encode())
    assert times == 1
    assert b"MIIE" not in redacted
    assert redacted.endswith(f'{newline}", "id": 1'.encode())


@pytest.mark.parametrize("written", VALUES)
@pytest.mark.parametrize("nested", [0, 1])
def test_redact_removes_value_and_keeps_name(written: str, nested: int) -> None:
    before, _, after = written.partition("@")
    told = f"{before}{VALUES[written]}{after}\nnext"
    wanted = f"{before}[redacted]{after}\nnext"
    if nested:
        told, wanted = json.dumps(json.dumps(told)), json.dumps(json.dumps(wanted))
    assert redact(told.encode()) == (wanted.encode(), 1)
    assert redact(wanted.encode()) == (wanted.encode(), 0)
    assert redact_all([b"first", told.encode()]) == {1: (wanted.encode(), 1)}
    assert list(find_keys([told.encode()])) == [], "nothing proves that it is one"


def test_redact_removes_whole_web_token() -> None:
    body = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0"
    told = f"Cookie: session={body}.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U; path=/"
    redacted, times = redact(told.encode())
    assert (times, redacted[:26], redacted[-8:]) == (1, b"Cookie: session=[redacted:", b"; path=/")


@pytest.mark.parametrize("nested", [0, 1])
def test_ordinary_code_and_prose_stay(nested: int) -> None:
    told = json.dumps(ORDINARY) if nested else ORDINARY
    assert redact(told.encode()) == (told.encode(), 0)
    for line in ORDINARY.splitlines():
        assert redact(line.encode()) == (line.encode(), 0)


def test_every_mark_is_found_among_many_texts() -> None:
    told = [f"text {key} end".encode() for key in KEYS]
    told += [written.replace("@", value, 1).encode() for written, value in VALUES.items()]
    harmless = [b"nothing here"] * len(told)
    mixed = [text for pair in zip(told, harmless, strict=True) for text in pair]
    assert sorted(redact_all(mixed)) == list(range(0, len(mixed), 2))
    assert redact_all([b"a\0b", *told]).keys() == set(range(1, len(told) + 1))


def test_redact_removes_environment_values_anywhere() -> None:
    live = list_live({
        "MY_TOKEN": 'quote"and\\slash 9', "SHORT_KEY": "abc123", "SSH_KEY": "/home/ada/.ssh/id_1",
        "DB": "mysql://root:only-4-me!!@db/x", "PATH": "/usr/bin:/bin1", "EDITOR_KEY": "timestamp",
        "PIN_SECRET": "12345678", "deploy_password": "correct horse 7",
    })  # fmt: skip
    assert len(live) == 3
    text = 'say quote"and\\slash 9, only-4-me!!, correct horse 7, abc123, timestamp, 12345678'
    redacted, times = redact(json.dumps(text).encode(), live)
    hidden = "say [redacted], [redacted], [redacted], abc123, timestamp, 12345678"
    assert (json.loads(redacted), times) == (hidden, 3)
    assert redact_all([b"first", json.dumps(text).encode()], live).keys() == {1}
    assert "horse" not in repr(Redactor(live))
    assert Redactor(live, is_on=False).redact(b"correct horse 7") == (b"correct horse 7", 0)


@pytest.mark.parametrize(
    "harmless",
    [
        "task-force-of-people-who-work-together-daily",
        "sk-" + "a" * 50,
        "AKIA",
        "the PRIVATE KEY-----",
    ],
)
def test_redact_ordinary_words_are_unchanged(harmless: str) -> None:
    assert redact(harmless.encode()) == (harmless.encode(), 0)


@given(st.binary(max_size=200))
def test_redact_text_without_key_is_unchanged(data: bytes) -> None:
    redacted, times = redact(data)
    assert times or redacted is data


@pytest.mark.parametrize(
    "unit", ["eyJ", "TOKEN=", "TOKEN=abcdefgh(", "TOKEN=abcdefgh,", "eyJabcdefghij.", "sk-"]
)
def test_redact_text_that_repeats_a_beginning_takes_linear_time(unit: str) -> None:
    def cost(length: int) -> float:
        data = (unit * (length // len(unit))).encode() + b"1"
        spent: list[float] = []
        for _ in range(3):
            begun = process_time()
            redact(data)
            spent.append(process_time() - begun)
        return max(min(spent), 0.001)

    # Sixteen times the text; in quadratic time it would take 256 times as long.
    assert cost(320_000) < 80 * cost(20_000)
