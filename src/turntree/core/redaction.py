"""Finds and removes secrets: keys by their format, and values that are known to be secret.

A format is listed if its prefix and its length leave little doubt. Passwords have no format: they
are recognized by the name before them, by their position in a URL, or because this process holds
them itself. A match is not proof that a key was ever valid; a person still has to look.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import accumulate
from typing import Final

import orjson

from turntree.core.message import Message, ToolResult, from_json, line_of, tool
from turntree.core.pattern import pattern
from turntree.core.value import value

RULES_VERSION: Final = 4
"""Version of the formats below: equal versions remove the same text and give equal digests."""
LIVE_CHARS_MIN: Final = 8
"""A shorter value of the environment would occur in too many words."""
HIDDEN: Final = b"[redacted]"
"""Replaces a password. It includes no digest, from which a password could be guessed."""
_ADDRESS_BYTES_MAX: Final = 256

# All text of the ledger is searched for marks, so they are chosen for speed. Without small letters
# a twentieth of a text is left, and most marks are searched for there; the others contain a
# character that rarely follows the letter before it. Only a text with a mark is examined closely.
_LEFT: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ_yz\0"
_DROPPED: Final = bytes(sorted(set(range(256)) - set(_LEFT)))
_KEY_SHORT: Final = tuple(
    (mark.translate(None, _DROPPED), mark)
    for mark in (
        b"AKIA", b"ASIA", b"AIza", b"GOCSPX-", b"PRIVATE KEY-----", b"AGE-SECRET-KEY-1",
        b"AccountKey=", b"ATATT3", b":AA",
    )
)  # fmt: skip
"""Marks reduced to the letters that are left, and as they occur in the text."""
_SHORT: Final = (
    *_KEY_SHORT,
    *(
        (mark.translate(None, _DROPPED), mark)
        for mark in (
            b"eyJ", b"PASSW", b"SECRET", b"TOKEN", b"_KEY", b"APIKEY", b"SecretAccessKey",
        )
    ),
)  # fmt: skip
_KEY_LONG: Final = (b"hooks.slack.com/services/",)
_LONG: Final = (*_KEY_LONG, b"secret_access_key")
_SIGNS: Final = (
    # Most hyphens, underscores and dots follow another letter and are rejected at once.
    pattern(
        rb"-(?<=[kbptixK]-)(?=[A-Za-z0-9_-]{16})(?:(?<=sk-)|(?<=xox[bp]-)|(?<=glpat-)|(?<=xai-)"
        rb"|(?<=xapp-)|(?<=pypi-)|(?<=pplx-)|(?<=PMAK-)|(?<=NRAK-))"
    ),
    pattern(
        rb"_(?<=[pourstmfkec18ain]_)(?=[A-Za-z0-9+/]{16})(?:(?<=gh[pousr]_)|(?<=github_pat_)"
        rb"|(?<=[sr]k_live_)|(?<=[sr]k_test_)|(?<=whsec_)|(?<=npm_)|(?<=hf_)|(?<=gsk_)"
        rb"|(?<=dop_v1_)|(?<=r8_)|(?<=shp[a-z][a-z]_)|(?<=dckr_pat_)|(?<=lin_api_)|(?<=ntn_)"
        rb"|(?<=glsa_)|(?<=sbp_)|(?<=pscale_tkn_)|(?<=tt[kis]_))"
    ),
    pattern(
        rb"\.(?<=[1sbr9G]\.)(?=[A-Za-z0-9_-]{8})(?:(?<=tt1\.)|(?<=hv[sbr]\.)|(?<=ya29\.)"
        rb"|(?<=SG\.))"
    ),
)
_HEADER_SIGN: Final = pattern(rb"B(?=(?:earer|asic) [A-Za-z0-9._~+/-]{12})")
_KEY_WORDS: Final = (*(mark for _, mark in _KEY_SHORT), *_KEY_LONG)
"""A text without one of these, and without a match of _SIGNS, contains no key."""

_KEY: Final = pattern(
    # A line break is written \n in JSON: its n is not part of a word.
    rb"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt]))(?:"
    # OpenAI and others (sk-…, sk-proj-…), Anthropic (sk-ant-…).
    rb"sk-(?:proj-|ant-|svcacct-|or-v1-)?(?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{32,}"
    rb"|gh[pousr]_[A-Za-z0-9]{36}"
    rb"|github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}"
    rb"|glpat-[A-Za-z0-9_-]{20,}"
    rb"|xai-[A-Za-z0-9]{60,}"
    rb"|AIza[0-9A-Za-z_-]{35}"
    rb"|GOCSPX-[0-9A-Za-z_-]{20,}"
    rb"|A[KS]IA[0-9A-Z]{16}"
    rb"|(?:xoxe\.)?xox[bp]-(?:\d{8,}-[A-Za-z0-9-]{16,}|\d-[A-Za-z0-9]{24,})"
    rb"|xapp-\d-[A-Z0-9]{6,}-\d{8,}-[a-f0-9]{32,}"
    rb"|[sr]k_(?:live|test)_[A-Za-z0-9]{16,}"
    rb"|whsec_[A-Za-z0-9+/]{24,}"
    rb"|npm_[A-Za-z0-9]{36}"
    rb"|pypi-AgEI[A-Za-z0-9_-]{50,}"
    rb"|hf_[A-Za-z0-9]{34}"
    rb"|gsk_[A-Za-z0-9]{52}"
    rb"|r8_[A-Za-z0-9]{37}"
    rb"|dop_v1_[a-f0-9]{64}"
    rb"|AGE-SECRET-KEY-1[0-9A-Z]{50,}"
    rb"|AccountKey=[A-Za-z0-9+/]{86}=="
    # SendGrid, HashiCorp Vault, Google OAuth, Telegram, Atlassian, Shopify, Docker Hub, Linear,
    # Notion, Grafana, Supabase, PlanetScale, Perplexity, Postman, New Relic.
    rb"|SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"
    rb"|hv[sbr]\.[A-Za-z0-9_-]{24,}"
    rb"|ya29\.[A-Za-z0-9_-]{20,}"
    rb"|[0-9]{8,10}:AA[A-Za-z0-9_-]{33}"
    rb"|ATATT3[A-Za-z0-9_=-]{60,}"
    rb"|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"
    rb"|dckr_pat_[A-Za-z0-9_-]{27,}"
    rb"|lin_api_[A-Za-z0-9]{40}"
    rb"|ntn_[A-Za-z0-9]{40,}"
    rb"|glsa_[A-Za-z0-9]{32}_[a-f0-9]{8}"
    rb"|sbp_[a-f0-9]{40}"
    rb"|pscale_tkn_[A-Za-z0-9_.=-]{32,}"
    rb"|pplx-[A-Za-z0-9]{40,}"
    rb"|PMAK-[a-f0-9]{24}-[a-f0-9]{34}"
    rb"|NRAK-[A-Z0-9]{27}"
    # Our own tokens, API keys, invitations and login sessions.
    rb"|tt1\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]{8,})+"
    rb"|tt[kis]_[A-Za-z0-9]{22}_[a-f0-9]{12}_[A-Za-z0-9]{49}"
    rb")(?![A-Za-z0-9])"
    rb"|https://hooks\.slack\.com/services/T[A-Za-z0-9]{6,}/B[A-Za-z0-9]{6,}/[A-Za-z0-9]{20,}"
    # JSON inside of JSON writes a line break with several backslashes.
    rb"|-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----(?:\\+[rn]|\s){1,4}[A-Za-z0-9+/]{16,}"
    rb"(?:[A-Za-z0-9+/=]|\\+[rn]|\s)*(?:-----END (?:[A-Z]+ )*PRIVATE KEY-----)?"
)
_NO_VALUE: Final = (
    rb"(?!(?i:your|xxx|change.?me|placeholder|dummy|fake|none|null|true|false|example|redacted))"
)
"""How people write a placeholder for a value."""
_NAMED: Final = pattern(
    rb"(?:PASSWORD|PASSWD|SECRET|TOKEN|API_?KEY|(?:ACCESS|SECRET|PRIVATE|SIGNING|ENCRYPTION"
    rb"|MASTER|AUTH)_KEY)\\*[\"']?\s?[=:]\s?\\*[\"']?" + _NO_VALUE + rb"(?![/~.])"
)
"""What stands before the value in NAME=value or "NAME": "value"."""
_WORD_END: Final = pattern(rb"[\s\"'\\]")
_VALUE_END: Final = pattern(rb"[\s\"'\\,;&<>$`(){}\[\]|]")
_AFTER_VALUE: Final = frozenset(b" \t\n\r\f\v\"'\\,;&")
_VALUE_BYTES_MIN: Final = 8
_NO_LETTERS: Final = bytes(one for one in range(256) if not bytes((one,)).isalpha())
_NO_DIGITS: Final = bytes(one for one in range(256) if not bytes((one,)).isdigit())
_VALUES: Final = (
    # JSON web tokens. A long word is examined once, however often a token could begin in it.
    (
        (b"eyJ",),
        pattern(
            rb"(?<![A-Za-z0-9_-])(?=[A-Za-z0-9_-]++\.eyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]{20,})"
            rb"[A-Za-z0-9_-]*?"
            rb"(?P<key>eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]{20,})"
        ),
    ),
    ((b"PASSW", b"SECRET", b"TOKEN", b"_KEY", b"APIKEY"), _NAMED),
    (
        (b"secret_access_key", b"SecretAccessKey"),
        pattern(
            rb"(?:secret_access_key|SecretAccessKey)\\*[\"']?\s?[=:]\s?\\*[\"']?"
            rb"(?P<value>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])"
        ),
    ),
    # The credentials of an HTTP request. In code, a name or a bracket follows.
    (
        (b"Bearer ", b"Basic "),
        pattern(
            rb"(?i:authorization)\\*[\"']?\s?[=:,]\s?\\*[\"']?(?:Bearer|Basic) " + _NO_VALUE
            + rb"(?P<value>(?=[A-Za-z._~+/-]*[0-9])[A-Za-z0-9._~+/-]{12,}={0,2})"
        ),
    ),
    # A password in an address.
    (
        (b"://",),
        pattern(
            rb"://[^\s/:@\"'\\<>\[\]{}]*:(?!(?i:password|passwd|pass|pw|secret|x+|user|\*+)@)"
            rb"(?P<value>[^\s/@\"'\\<>\[\]{}$,]{3,})@(?=[A-Za-z0-9.\[-])"
        ),
    ),
)  # fmt: skip
"""Secrets without a format of their own: the value is removed, and its name stays."""
_NAMES_SECRET: Final = pattern(
    r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|COOKIE|_PASS|_PW)\d*\Z",
    re.IGNORECASE,
)
_TELLS_LITTLE: Final = pattern(r"[A-Za-z_\s-]*|[0-9.,:\s+-]*")
_CARRIED: Final = pattern(r"://[^\s/:@]*:([^\s/@]+)@")


def find_keys(texts: Sequence[bytes]) -> Iterator[int]:
    """Yield the indexes of the texts that contain what looks like a secret key.

    All text of the ledger passes through here. Many texts are searched as one, for marks only; a
    text with a mark is examined closely. Passwords do not count: removing one by mistake does
    little harm, but reporting an ordinary word of a ledger as a secret does.
    """
    for index in _find_marked(texts, (), _KEY_SHORT, _KEY_LONG):
        if _has_key_mark(texts[index]) and _KEY.search(texts[index]) is not None:
            yield index


def redact(data: bytes, live: Sequence[bytes] = ()) -> tuple[bytes, int]:
    """Return the text with a placeholder for each secret, and the number of secrets.

    ``live`` are values that are secret wherever they occur. The placeholder of a key contains the
    first digits of its sha256: the same key can be recognized, but not recovered.
    """
    times = 0
    if _has_key_mark(data):
        data, times = _KEY.subn(lambda match: _placeholder(match[0]), data)
    for marks, shape in _VALUES:
        if any(mark in data for mark in marks):
            data, more = _hide_named(data) if shape is _NAMED else shape.subn(_hide, data)
            times += more
    for secret in live:
        if more := data.count(secret):
            data, times = data.replace(secret, HIDDEN), times + more
    return data, times


def redact_all(texts: Sequence[bytes], live: Sequence[bytes] = ()) -> dict[int, tuple[bytes, int]]:
    """Return the results of ``redact`` for the texts that contain a secret, by index.

    Few do, and searching many texts at once takes half the time.
    """
    indexes = _find_marked(texts, live, _SHORT, _LONG, has_values=True)
    results = {index: redact(texts[index], live) for index in indexes}
    return {index: result for index, result in results.items() if result[1]}


def list_live(environment: Mapping[str, str]) -> tuple[bytes, ...]:
    """Return the values of an environment that are secret by their names, the longest first.

    Includes passwords inside URLs. Each is encoded as in JSON. A path only says where a secret is
    stored, so it does not count.
    """
    values = {
        value
        for name, value in environment.items()
        if _NAMES_SECRET.search(name) and not value.startswith(("/", "~", "."))
    }
    values |= {match[1] for value in environment.values() for match in _CARRIED.finditer(value)}
    return as_live(values)


def as_live(values: Iterable[str]) -> tuple[bytes, ...]:
    """Return values that are secret as they occur in a text, the longest first.

    A plain word, a number or a short value would also occur in unrelated text and is left out.
    """
    live: set[bytes] = set()
    for secret in values:
        if len(secret) >= LIVE_CHARS_MIN and not _TELLS_LITTLE.fullmatch(secret):
            # As JSON encodes it: replacing any other form would break strings.
            raw = secret.encode("utf-8", "replace")
            live.add(orjson.dumps(raw.decode())[1:-1])
    return tuple(sorted(live, key=lambda value: (-len(value), value)))


@value
class Redactor:
    """Removes secrets from text before it is stored."""

    live: tuple[bytes, ...] = ()
    """Values that this process knows to be secret."""
    is_on: bool = True

    def __repr__(self) -> str:
        """Return the number of values it knows, and none of them."""
        return f"Redactor({len(self.live)} values, {'on' if self.is_on else 'off'})"

    def redact(self, data: bytes) -> tuple[bytes, int]:
        """Return a text without secrets, and the number removed."""
        return redact(data, self.live) if self.is_on else (data, 0)

    def knowing(self, values: Iterable[str]) -> "Redactor":
        """Return a redactor that knows more values to be secret."""
        return replace(self, live=(*as_live(values), *self.live))


BY_FORMAT: Final = Redactor()
"""Recognizes secrets by format only."""


def without_secrets(message: Message, redactor: Redactor) -> tuple[Message, int]:
    """Return a message without secrets, and the number removed."""
    line, count = redactor.redact(line_of(message))
    if not count:
        return message, 0
    clean = from_json(orjson.loads(line))
    assert isinstance(clean, Message), "nothing that is said was erased"
    return clean, count


def all_without_secrets(messages: Iterable[Message], redactor: Redactor) -> list[Message]:
    """Return messages without secrets."""
    return [without_secrets(message, redactor)[0] for message in messages]


def result_without_secrets(result: ToolResult, redactor: Redactor) -> ToolResult:
    """Return a tool result without secrets: a model needs none, and a ledger is permanent."""
    (clean,) = without_secrets(tool(result), redactor)[0].tool_results
    assert isinstance(clean, ToolResult), "nothing was lifted yet"
    return clean


def _placeholder(key: bytes) -> bytes:
    return b"[redacted:" + sha256(key).hexdigest()[:8].encode() + b"]"


def _hide(match: re.Match[bytes]) -> bytes:
    """Return the matched text without its value or its key."""
    assert match.lastgroup is not None, "each pattern names what is secret"
    begin, end = (at - match.start() for at in match.span(match.lastgroup))
    hidden = _placeholder(match[0][begin:end]) if match.lastgroup == "key" else HIDDEN
    return match[0][:begin] + hidden + match[0][end:]


def _hide_named(data: bytes) -> tuple[bytes, int]:
    """Return a text without the values that follow a secret's name, and how many there were.

    A value has a letter and a digit in its word and ends as a value does; in code, a bracket
    follows or there is no digit. One regular expression would search the rest of a word again for
    each name in it, which takes hours for a megabyte that repeats a name.
    """
    pieces: list[bytes] = []
    done = word_end = value_end = 0
    letter = digit = -1
    for match in _NAMED.finditer(data):
        begin = match.end()
        if match.start() < done:
            continue
        if begin >= word_end:
            word_end = _find_end(_WORD_END, data, begin)
            word = data[begin:word_end]
            letter = begin + len(word.rstrip(_NO_LETTERS)) - 1
            digit = begin + len(word.rstrip(_NO_DIGITS)) - 1
        if begin >= value_end:
            value_end = _find_end(_VALUE_END, data, begin)
        ends_well = value_end == len(data) or data[value_end] in _AFTER_VALUE
        if begin <= min(letter, digit) and value_end - begin >= _VALUE_BYTES_MIN and ends_well:
            pieces += (data[done:begin], HIDDEN)
            done = value_end
    return b"".join((*pieces, data[done:])), len(pieces) // 2


def _find_end(shape: re.Pattern[bytes], data: bytes, begin: int) -> int:
    found = shape.search(data, begin)
    return len(data) if found is None else found.start()


def _has_key_mark(text: bytes) -> bool:
    return any(word in text for word in _KEY_WORDS) or any(
        pattern.search(text) for pattern in _SIGNS
    )


def _find_marked(
    texts: Sequence[bytes],
    live: Sequence[bytes],
    short_marks: Sequence[tuple[bytes, bytes]],
    long_marks: Sequence[bytes],
    *,
    has_values: bool = False,
) -> list[int]:
    """Return the indexes of the texts that need a closer look."""
    whole = b"\0".join(texts)
    left = whole.translate(None, _DROPPED)
    if left.count(b"\0") >= len(texts):
        return list(range(len(texts)))  # A text contains NUL, so it is unclear where each ends.
    hits = {match.start() for pattern in _SIGNS for match in pattern.finditer(whole)}
    for word in (*long_marks, *live):
        # Without this, a compiled expression for each word would search for what is rarely there.
        if word in whole:
            hits.update(found.start() for found in re.finditer(re.escape(word), whole))
    if has_values:
        hits.update(_find_addresses(whole))
        hits.update(found.start() for found in _HEADER_SIGN.finditer(whole))
    begins = [0, *accumulate(len(text) + 1 for text in texts)] if hits else []
    indexes = {bisect_right(begins, at) - 1 for at in hits}
    for short, mark in short_marks:
        index, counted, at = 0, 0, left.find(short)
        while at >= 0:
            index += left.count(b"\0", counted, at)
            if mark in texts[index]:
                indexes.add(index)
            # One hit in a text is enough: what is left of a picture may be full of them.
            counted = left.find(b"\0", at)
            at = left.find(short, counted) if counted >= 0 else -1
    return sorted(indexes)


def _find_addresses(text: bytes) -> Iterator[int]:
    """Yield the position of the ``@`` after a user and password in a URL."""
    at = text.find(b"@")
    while at >= 0:
        before = text[max(0, at - _ADDRESS_BYTES_MAX) : at].rpartition(b"://")
        if before[1] and b":" in before[2] and b"/" not in before[2] and b" " not in before[2]:
            yield at
        at = text.find(b"@", at + 1)
