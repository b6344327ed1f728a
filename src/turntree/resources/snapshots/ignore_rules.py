"""Decide which paths a snapshot leaves out: what ``.gitignore`` ignores, and local rules.

``.turntreeignore`` leaves out more; ``.turntreekeep`` and a few built-in names bring ignored files
back. All use the syntax of ``.gitignore``. This module reads these files and matches patterns.
"""

import hashlib
import os
import re
from enum import Enum, auto
from functools import cached_property
from typing import Final, NamedTuple

from turntree.resources.snapshots.git_index import GitIndex, read_bytes

GIT_RULES: Final = b".gitignore"
MORE_RULES: Final = b".turntreeignore"
KEEP_RULES: Final = b".turntreekeep"
STAMP_BYTES: Final = 12
RULE_FILES: Final = frozenset((GIT_RULES, MORE_RULES, KEEP_RULES))
NEVER: Final = frozenset((b".git", b".turntree"))
"""Left out at any depth, whatever the rules say."""
UNFINISHED: Final = b".turntree-"
"""Prefixes of temporary names that a driver writes before renaming."""
_WANTED: Final = re.compile(rb"\.env.*|.*\.local|.*\.local\..*", re.DOTALL)
"""Files that are usually ignored because they are private, not because they can be rebuilt."""


_PLAIN: Final = re.compile(rb"[^*?\[\\]*")


class IgnoreDecision(Enum):
    """What a snapshot does with a path."""

    KEPT = auto()
    LEFT_OUT = auto()
    """By ``.turntreeignore``, which overrides everything else."""
    IGNORED = auto()
    """Left out because git ignores it."""
    WANTED = auto()
    """Kept although git ignores it."""
    SEALED = auto()
    """A folder that is left out, except for some paths inside."""


class Pattern(NamedTuple):
    """One line of a rule file."""

    regex: re.Pattern[bytes]
    negated: bool
    folders_only: bool
    by_name: bool
    """Whether it is matched against the name alone, at any depth."""
    start: bytes
    """The literal prefix that a path must have for the pattern to match below it."""


class RuleFile:
    """The rules of one file, which apply below its folder."""

    def __init__(self, base: bytes, text: bytes) -> None:
        """Hold the rules of a folder, which is given with a slash at its end."""
        self.base = base
        self.text = text

    def judge(self, path: bytes, name: bytes, *, folder: bool) -> bool | None:
        """Return True if the rules match a path, False if they negate it, None if neither."""
        below = path[len(self.base) :]
        by_name, by_path = self._any
        if not (by_name and by_name.match(name)) and not (by_path and by_path.match(below)):
            return None
        for one in reversed(self.patterns):
            if one.folders_only and not folder:
                continue
            if one.regex.match(name if one.by_name else below):
                return not one.negated
        return None

    def may_fit_below(self, path: bytes) -> bool:
        """Return whether a pattern with a path may match something inside a folder."""
        below = path[len(self.base) :] + b"/"
        return any(
            not one.by_name and (one.start.startswith(below) or below.startswith(one.start))
            for one in self.patterns
            if one.start
        )

    @cached_property
    def patterns(self) -> list[Pattern]:
        """The rules, in order."""
        lines = self.text.removeprefix(b"\xef\xbb\xbf").split(b"\n")
        return [found for line in lines if (found := read_pattern(line)) is not None]

    @cached_property
    def _any(self) -> tuple[re.Pattern[bytes] | None, re.Pattern[bytes] | None]:
        return _either(self.patterns, by_name=True), _either(self.patterns, by_name=False)


class IgnoreRules:
    """The rules that apply inside one folder."""

    def __init__(
        self,
        git: tuple[RuleFile, ...] = (),
        more: tuple[RuleFile, ...] = (),
        keep: tuple[RuleFile, ...] = (),
        tracked: GitIndex | None = None,
        *,
        sealed: bool = False,
    ) -> None:
        """Combine rule files, the nearest first."""
        self._git, self._more, self._keep = git, more, keep
        self._tracked = tracked
        self.sealed = sealed
        """Whether the folder is left out, except for some paths inside."""

    @cached_property
    def stamp(self) -> bytes:
        """A token of the rules: a folder whose token changed has to be read again."""
        told = hashlib.sha256(b"sealed" if self.sealed else b"open")
        for files in (self._git, self._more, self._keep):
            for one in files:
                told.update(b"%d:%s%d:%s" % (len(one.base), one.base, len(one.text), one.text))
            told.update(b";")
        return told.digest()[:STAMP_BYTES]

    @cached_property
    def stamp_where_ignored(self) -> bytes:
        """The token of a folder with ignored entries, where the git index matters too."""
        return self.stamp + (self._tracked.stamp if self._tracked is not None else b"none")

    def inside(self, folder: bytes, names: tuple[bytes, ...], *, top: bool) -> "IgnoreRules":
        """Return the rules inside a folder that has these rule files of its own."""
        base = folder + b"/"
        git, more, keep, tracked = self._git, self._more, self._keep, self._tracked
        if b".git" in names:
            # A nested repository is not subject to the outer one's rules.
            git = git if top else ()
            tracked = GitIndex(base)
            if text := read_bytes(base + b".git/info/exclude"):
                git = (RuleFile(base, text), *git)
        if GIT_RULES in names and (text := read_bytes(base + GIT_RULES)):
            git = (RuleFile(base, text), *git)
        if MORE_RULES in names and (text := read_bytes(base + MORE_RULES)):
            more = (RuleFile(base, text), *more)
        if KEEP_RULES in names and (text := read_bytes(base + KEEP_RULES)):
            keep = (RuleFile(base, text), *keep)
        return IgnoreRules(git, more, keep, tracked, sealed=self.sealed)

    def judge(self, path: bytes, name: bytes, *, folder: bool) -> IgnoreDecision:
        """Return what a snapshot does with a path."""
        if _judge(self._more, path, name, folder=folder):
            return IgnoreDecision.LEFT_OUT
        if not self.sealed and not _judge(self._git, path, name, folder=folder):
            return IgnoreDecision.KEPT
        if _judge(self._keep, path, name, folder=folder):
            return IgnoreDecision.WANTED
        tracked = self._tracked is not None and self._tracked.holds(path, folder=folder)
        if folder:
            wanted = tracked or any(one.may_fit_below(path) for one in self._keep)
            return IgnoreDecision.SEALED if wanted else IgnoreDecision.IGNORED
        return (
            IgnoreDecision.WANTED if tracked or _WANTED.fullmatch(name) else IgnoreDecision.IGNORED
        )

    def below(self, *, sealed: bool) -> "IgnoreRules":
        """Return the rules for a subfolder, left out except for some paths or not."""
        if sealed == self.sealed:
            return self
        return IgnoreRules(self._git, self._more, self._keep, self._tracked, sealed=sealed)


def rules_above(place: bytes) -> IgnoreRules:
    """Return the rules of the repository that contains a resource."""
    found: list[RuleFile] = []
    folder = place
    while not os.path.lexists(os.path.join(folder, b".git")):
        above = os.path.dirname(folder)
        if above == folder:
            return IgnoreRules()
        folder = above
        base = folder.rstrip(b"/") + b"/"
        if text := read_bytes(base + GIT_RULES):
            found.append(RuleFile(base, text))
    return IgnoreRules(tuple(found), tracked=GitIndex(folder.rstrip(b"/") + b"/"))


def read_pattern(line: bytes) -> Pattern | None:
    """Return the rule on a line, or None."""
    line = line.removesuffix(b"\r")
    while line.endswith(b" ") and not line.endswith(b"\\ "):
        line = line[:-1]
    if not line or line.startswith(b"#"):
        return None
    negated = line.startswith(b"!")
    line = line[1:] if negated else line
    folders_only = line.endswith(b"/")
    line = line[:-1] if folders_only else line
    by_name = b"/" not in line
    line = line.removeprefix(b"/")
    if not line:
        return None
    try:
        regex = re.compile(_translate(line) + rb"\Z", re.DOTALL)
    except re.error:
        return None  # As git does: a malformed pattern matches nothing.
    start = b"" if by_name else _plain_start(line)
    return Pattern(regex, negated, folders_only, by_name, start)


def _plain_start(pattern: bytes) -> bytes:
    """Return the literal text before the first special character."""
    found = _PLAIN.match(pattern)
    assert found is not None, "it fits nothing at all, too"
    return found[0]


def _translate(pattern: bytes) -> bytes:
    """Return the regular expression of a pattern."""
    out: list[bytes] = []
    at, end = 0, len(pattern)
    plain = len(_plain_start(pattern))
    while at < end:
        sign = pattern[at : at + 1]
        if sign == b"*":
            piece, at = _translate_stars(pattern, at, plain)
            out.append(piece)
        elif sign == b"?":
            out.append(rb"[^/]")
            at += 1
        elif sign == b"[":
            piece, at = _translate_class(pattern, at)
            out.append(piece)
        else:
            at += 1 if sign == b"\\" and at + 1 < end else 0
            out.append(re.escape(pattern[at : at + 1]))
            at += 1
    return b"".join(out)


def _translate_stars(pattern: bytes, at: int, plain: int) -> tuple[bytes, int]:
    """Return the regular expression of stars and where they end."""
    end = at
    while pattern[end : end + 1] == b"*":
        end += 1
    # Two stars as a whole path segment match any number of segments. Git also treats stars after
    # literal text like that, because it compares the literal text first and then drops it.
    begins = at == plain or pattern[at - 1 : at] == b"/"
    if end - at > 1 and begins and pattern[end : end + 1] in {b"", b"/"}:
        return (rb".*", end) if end == len(pattern) else (rb"(?:.*/)?", end + 1)
    return rb"[^/]*", end


def _translate_class(pattern: bytes, at: int) -> tuple[bytes, int]:
    """Return the regular expression of ``[…]`` and where it ends."""
    found = re.compile(rb"\[([!^]?)(\]?(?:\\.|\[:[a-z]+:\]|[^\]\\])*)\]", re.DOTALL).match(
        pattern, at
    )
    if found is None:
        raise re.error("unterminated character class")
    inner = found[2]
    for name, signs in _CLASSES.items():
        inner = inner.replace(b"[:" + name + b":]", signs)
    inner = inner.replace(b"[", rb"\[")
    inner = rb"\]" + inner[1:] if inner.startswith(b"]") else inner
    # A class never matches a slash: each segment of a pattern stays within one name.
    return rb"(?!/)[" + (b"^" if found[1] else b"") + inner + b"]", found.end()


_CLASSES: Final = {
    b"alnum": b"a-zA-Z0-9",
    b"alpha": b"a-zA-Z",
    b"blank": b" \\t",
    b"digit": b"0-9",
    b"lower": b"a-z",
    b"space": b"\\s",
    b"upper": b"A-Z",
    b"xdigit": b"0-9a-fA-F",
}


def _either(patterns: list[Pattern], *, by_name: bool) -> re.Pattern[bytes] | None:
    """Return one expression that matches whatever any of the patterns matches."""
    chosen = [one.regex.pattern for one in patterns if one.by_name == by_name]
    return re.compile(b"|".join(chosen), re.DOTALL) if chosen else None


def _judge(files: tuple[RuleFile, ...], path: bytes, name: bytes, *, folder: bool) -> bool:
    for one in files:
        verdict = one.judge(path, name, folder=folder)
        if verdict is not None:
            return verdict
    return False
