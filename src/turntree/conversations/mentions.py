r"""Mentions: ``@[Atlas](agent:atlas)`` in a post calls an agent, ``@[Ana](user:ana)`` a person.

CommonMark decides what is text. A mention in code, behind a backslash, in a link's destination or
in a tag is none; its name is a label as a link has one, where brackets may nest. Mentions do not
nest: of two, the inner one counts, as with links. ``@_[Ana](user:ana)`` is *silent*: it is shown,
but it neither wakes an agent nor notifies a person. One in a block quote does neither, because the
quoted post did that once.

The id decides whom a mention is about. It is the name of a program or its id; the name between the
brackets is what the author saw, and is shown as it is now.

markdown-it-py finds the blocks; ``_read`` reads the text in them. An inline rule of markdown-it
would do so too, but looks for the end of each bracket anew, and the rule for links with it: 64 KB
of ``[``, ``![`` or ``*_`` cost 0.5 to 1.5 s, ninety times plain text. Here each opening bracket is
remembered until its end comes, so that a paragraph is read once, and what can only change how text
looks is not read at all. A quote or a list may hold seven others, and what has too many marks for
the page to show as Markdown is plain text here as well: so all posts of a length cost about the
same, which ``proofs/mentions.py`` measures.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from functools import cache, reduce
from itertools import islice
from typing import Any, Final, Literal, TypeAlias, cast

from markdown_it import MarkdownIt
from markdown_it.common.utils import normalizeReference
from markdown_it.rules_block import (
    StateBlock,
    blockquote,
    fence,
    heading,
    hr,
    html_block,
    list_block,
)
from markdown_it.token import Token

from turntree.core.errors import InvalidOperation
from turntree.core.ids import find_long_id
from turntree.core.program import NAME_CHARS_MAX
from turntree.core.value import value

MentionKind: TypeAlias = Literal["user", "agent"]
MentionTarget: TypeAlias = tuple[MentionKind, str]
"""Whom a mention is about: a kind and the id, of which both spellings are one."""

PROGRAM_KINDS: Final[Mapping[MentionKind, str]] = {"user": "human", "agent": "agent"}
"""The kind of program that each kind of mention is about."""
POST_BYTES_MAX: Final = 65_536
"""A long answer of a model is a tenth of it. What is longer is a file and should be attached: a
post is copied into the context of each agent in its conversation."""
POST_LINES_MAX: Final = 1_500
"""Blocks are read line by line, so that short lines are what costs. Prose fills 65 KB in 950."""
POST_MENTIONS_MAX: Final = 50
"""Different targets in a post. Each one that is not silent starts a run or interrupts a person, so
this is how much one message may set off; a larger audience is a conversation of its own."""
MENTION_NAME_CHARS_MAX: Final = 200
NESTING_MAX: Final = 8
"""Quotes and lists around a paragraph. CommonMark looks at a line once for each of them."""
CONTAINERS_MAX: Final = 200
"""Quotes, lists and items in a post: to open one costs as much as to read ten lines. The marks of
more are text, in which mentions still count."""
POST_MARKS_MAX: Final = 16_000
"""Each is looked at. A quarter of the largest post is no text any more."""
_MENTIONS_READ_MAX: Final = 500
"""Mentions in a post, however many of them are of one target."""
PARAGRAPH_CHARS_MAX: Final = 12_000
PARAGRAPH_MARKS_MAX: Final = 600
"""The page shows a paragraph with more characters or marks as plain text, without a mention."""

_MARKS: Final = "*_~[]!`<\\"
_LABEL_CHARS_MAX: Final = 2 * MENTION_NAME_CHARS_MAX
"""A backslash may stand before each character of a name."""
_LINK_LABEL_CHARS_MAX: Final = 999
_ID: Final = rf"[A-Za-z0-9_][A-Za-z0-9_.:/+-]{{0,{NAME_CHARS_MAX - 1}}}"
_IS_ID: Final = re.compile(_ID)
_TARGET: Final = re.compile(rf"\((user|agent):({_ID})\)")
_MAY_MENTION: Final = re.compile(rf"\]\((?:user|agent):{_ID}\)")
_NEWLINE: Final = re.compile(r"\r\n?|\n")
_ESCAPED: Final = re.compile(r"\\([!-/:-@\[-`{-~])")
_TO_ESCAPE: Final = re.compile(r"[\\\[\]`<|]")
_BLANKS: Final = re.compile(r"[\x00-\x20\x7f-\xa0\u2028\u2029]+")
"""What a name has as one space: blanks, controls and ends of lines."""
_MARK: Final = re.compile(r"(?:@_?|!)?\[|\]|\\[!-/:-@\[-`{-~]|`+|<(?=[A-Za-z0-9!?/.#-'*+=^_`{-~])")
_RUN: Final = re.compile(r"`+")
_AUTOLINK: Final = re.compile(
    r"<(?:[A-Za-z][A-Za-z0-9+.-]{1,31}:[^<>\x00-\x20\x7f]*"
    r"|[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
    r"(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*)>"
)
_TAG: Final = re.compile(
    r"""<[A-Za-z][A-Za-z0-9-]*+(?:[ \t\n]++[A-Za-z_:][A-Za-z0-9_.:-]*+"""
    r"""(?:[ \t\n]*=[ \t\n]*(?:[^ \t\n"'=<>`]++|'[^']*'|"[^"]*"))?)*[ \t\n]*/?>"""
    r"""|</[A-Za-z][A-Za-z0-9-]*[ \t\n]*>|<!---?>|<!--.*?-->|<\?.*?\?>|<![A-Za-z][^>]*>"""
    r"""|<!\[CDATA\[.*?\]\]>""",
    re.DOTALL,
)
_TAG_ENDS: Final = {"!-": "-->", "![": "]]>", "?": "?>"}
_LINK_LABEL: Final = re.compile(rf"\[((?:[^\\\[\]]|\\.){{0,{_LINK_LABEL_CHARS_MAX}}})\]", re.DOTALL)
_LINK_START: Final = re.compile(r"\([ \t]*\n?[ \t]*")
_POINTED: Final = re.compile(r"<(?:[^<>\\\n]|\\[^\n])*>")
_BARE_CHARS: Final = r"[^\x00-\x20\x7f()\\]|\\[!-/:-@\[-`{-~]|\\"
_BARE: Final = re.compile(
    reduce(lambda inner, _: rf"(?:{_BARE_CHARS}|\({inner}\))*+", range(3), rf"(?:{_BARE_CHARS})*+")
)
"""A destination; CommonMark asks for three levels of parentheses in it."""
_BETWEEN: Final = re.compile(r"[ \t]+\n?[ \t]*|[ \t]*\n[ \t]*")
_TITLE: Final = re.compile(
    r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\((?:[^()\\]|\\.)*\)""", re.DOTALL
)
_LINK_END: Final = re.compile(r"[ \t]*\n?[ \t]*\)")


@value
class Mention:
    """A mention in a text."""

    kind: MentionKind
    id: str
    """As it is written: the name of a program, or its id in either form."""
    name: str
    """As its author saw it."""
    silent: bool
    quoted: bool
    start: int
    """Where it is in the text, in characters."""
    end: int

    @property
    def target(self) -> MentionTarget:
        """Whom it is about: two mentions of one id are equal here, however they spell it."""
        return (self.kind, find_long_id(self.id) or self.id)

    @property
    def calls(self) -> bool:
        """Whether it wakes an agent or notifies a person."""
        return not (self.silent or self.quoted)


def find_mentions(text: str) -> tuple[Mention, ...]:
    """Return the mentions in a text, in their order; one that is too long for a post has none."""
    if _MAY_MENTION.search(text) is None or _excess(text) is not None:
        return ()
    lines = _Lines(text)
    mentions = (
        Mention(kind, id, name, silent, is_quoted, *lines.place(line, content, start, end))
        for content, line, is_quoted, references in _paragraphs(text)
        for start, end, kind, id, name, silent in _read(content, references)
    )
    return tuple(islice(mentions, _MENTIONS_READ_MAX))


def check_post(text: str) -> tuple[Mention, ...]:
    """Return the mentions in a text that is to be posted.

    Raises:
        InvalidOperation: It is too long for a post, or mentions too many.
    """
    if (excess := _excess(text)) is not None:
        raise InvalidOperation(f"a post has at most {excess}")
    mentions = find_mentions(text)
    targets = len({mention.target for mention in mentions})
    if targets > POST_MENTIONS_MAX:
        raise InvalidOperation(f"a post mentions at most {POST_MENTIONS_MAX}, and this {targets}")
    return mentions


def can_be_mentioned(id: str) -> bool:
    """Whether a mention can name this; a person is sometimes named otherwise than programs are."""
    return _IS_ID.fullmatch(id) is not None


def write_mention(kind: MentionKind, id: str, name: str, *, silent: bool = False) -> str:
    """Return a mention as text; ``find_mentions`` finds it there, whatever the name.

    Blanks in the name become single spaces. A long name is cut, an empty one is the id.

    Raises:
        InvalidOperation: The id is neither a name nor an id of a program.
    """
    if not can_be_mentioned(id):
        raise InvalidOperation(f"{id[:NAME_CHARS_MAX]!r} is not a program")
    shown = _flat(name) or id
    if len(shown) > MENTION_NAME_CHARS_MAX:
        shown = shown[: MENTION_NAME_CHARS_MAX - 1].rstrip() + "…"
    label = _TO_ESCAPE.sub(r"\\\g<0>", shown)
    return f"@{'_' if silent else ''}[{label}]({kind}:{id})"


def show_mentions(text: str, names: Mapping[MentionTarget, str | None]) -> str:
    """Return a text whose mentions have the present names of their targets.

    None stands for a target that was deleted: it keeps its name and says so. A target that
    ``names`` lacks keeps its name too.
    """

    def shown(mention: Mention) -> str:
        name = names.get(mention.target, mention.name)
        if name is None:
            name = f"{mention.name.removesuffix(_DELETED)}{_DELETED}"
        if name == mention.name:
            return text[mention.start : mention.end]
        return write_mention(mention.kind, mention.id, name, silent=mention.silent)

    return _replace(text, shown)


def plain_text(text: str) -> str:
    """Return a text with ``@Name`` for each mention, as a model or a mail is given it."""
    return _replace(text, lambda mention: f"@{mention.name}")


_DELETED: Final = " (deleted)"


def _replace(text: str, shown: Callable[[Mention], str]) -> str:
    pieces: list[str] = []
    end = 0
    for mention in find_mentions(text):
        pieces += [text[end : mention.start], shown(mention)]
        end = mention.end
    return "".join([*pieces, text[end:]])


def _flat(name: str) -> str:
    return _BLANKS.sub(" ", name).strip(" ")


def _excess(text: str) -> str | None:
    """Return the limit of a post that a text exceeds, in words, or None."""
    # A character has at most four bytes: most texts need not be encoded to know.
    if len(text) * 4 > POST_BYTES_MAX:
        size = len(text.encode(errors="surrogatepass"))
        if size > POST_BYTES_MAX:
            return f"{POST_BYTES_MAX} bytes, and this has {size}"
    lines = text.count("\n") + text.count("\r") - text.count("\r\n") + 1
    if lines > POST_LINES_MAX:
        return f"{POST_LINES_MAX} lines, and this has {lines}"
    marks = sum(map(text.count, _MARKS))
    if marks > POST_MARKS_MAX:
        return f"{POST_MARKS_MAX} marks of Markdown, and this has {marks}"
    return None


class _Lines:
    """The lines of a text, to say where in it a character of a paragraph is."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts = [0, *(match.end() for match in _NEWLINE.finditer(text))]

    def place(self, first: int, content: str, start: int, end: int) -> tuple[int, int]:
        """Return the place in the text of a mention in a paragraph that begins in a line.

        What a paragraph lacks of its lines are marks of quotes, lists and headings, the indent and
        some blanks at its beginning, which may be a line. None of them is an ``@``: the first one
        of each line is the first one of the paragraph's line, and so it is for the first lines
        that have one.
        """
        place = self._text.index("@", self._starts[first])
        number = bisect_right(self._starts, place) - 1
        number += content.count("\n", content.index("@"), start)
        line_start = content.rfind("\n", 0, start) + 1
        shift = self._text.index("@", self._starts[number]) - content.index("@", line_start)
        return start + shift, end + shift


_Paragraph: TypeAlias = tuple[str, int, bool, Mapping[str, object]]


def _paragraphs(text: str) -> Iterator[_Paragraph]:
    """Yield paragraphs and headings that may mention: text, first line, in a quote, references."""
    env: dict[str, Any] = {"depth": 0, "containers": 0}
    # Without an end of its last line, some texts end markdown-it-py 4.3 by an IndexError.
    tokens: list[Token] = _blocks().parse(f"{text}\n", env)
    references = cast("Mapping[str, object]", env.get("references", {}))
    quotes = 0
    for token in tokens:
        match token.type:
            case "blockquote_open":
                quotes += 1
            case "blockquote_close":
                quotes -= 1
            case "inline" if token.map and _may_mention(token.content):
                yield token.content, token.map[0], quotes > 0, references
            case _:
                pass


def _may_mention(content: str) -> bool:
    return (
        _MAY_MENTION.search(content) is not None
        and len(content) <= PARAGRAPH_CHARS_MAX
        and sum(map(content.count, _MARKS)) <= PARAGRAPH_MARKS_MAX
    )


@cache
def _blocks() -> MarkdownIt:
    # The limit of markdown-it drops the rest of the text where it is reached; ours comes first.
    parser = MarkdownIt("commonmark", {"maxNesting": 4 * NESTING_MAX})
    parser.core.ruler.enableOnly(["normalize", "block"])
    rules = parser.block.ruler
    starts: dict[str, _BlockRule] = {
        "fence": fence,
        "blockquote": _limited(blockquote),
        "hr": _ruled,
        "list": _limited(list_block),
        "html_block": html_block,
        "heading": heading,
    }
    for name, rule in starts.items():
        rules.at(name, rule, {"alt": []})
    # What may end a paragraph or a quote, and what may end a list.
    interrupts = _interruption((*starts.values(),))
    rules.push("interruption", interrupts, {"alt": ["paragraph", "reference", "blockquote"]})
    ends_list = _interruption((fence, blockquote, _ruled))
    rules.push("list_interruption", _counted(ends_list), {"alt": ["list"]})
    return parser


_BlockRule: TypeAlias = Callable[[StateBlock, int, int, bool], bool]
_STARTS: Final = frozenset("`~>*-_+<#0123456789")
"""What a line begins with that may end a paragraph above it."""


def _interruption(rules: tuple[_BlockRule, ...]) -> _BlockRule:
    """Return a rule that says whether any of these would match, and looks at one character first.

    markdown-it asks all of them for each line of a paragraph, and again for each quote around it.
    """

    def interrupts(state: StateBlock, start: int, end: int, silent: bool) -> bool:  # noqa: FBT001
        position = state.bMarks[start] + state.tShift[start]
        return state.src[position : position + 1] in _STARTS and any(
            rule(state, start, end, silent) for rule in rules
        )

    return interrupts


_RULED: Final = re.compile(r"([-*_])(?:[ \t]*\1){2,}[ \t]*$", re.MULTILINE)


def _ruled(state: StateBlock, start: int, end: int, silent: bool) -> bool:  # noqa: FBT001
    # markdown-it counts the marks one by one, for each line of ``- - - a`` and each list in it.
    marks = state.bMarks[start] + state.tShift[start]
    return _RULED.match(state.src, marks) is not None and hr(state, start, end, silent)


def _limited(rule: _BlockRule) -> _BlockRule:
    """Return a rule that opens no quote or list beyond the limits: its mark is text then."""

    def opens(state: StateBlock, start: int, end: int, silent: bool) -> bool:  # noqa: FBT001
        env = cast("dict[str, Any]", state.env)
        if env["containers"] >= CONTAINERS_MAX:
            return False
        # A line with less indent than the item around it would open its quote or list outside.
        if env["depth"] >= NESTING_MAX and state.sCount[start] >= state.blkIndent:
            return False
        if silent:
            return rule(state, start, end, silent)
        env["depth"] += 1
        env["containers"] += 1
        is_open = rule(state, start, end, silent)
        env["depth"] -= 1
        env["containers"] -= not is_open
        return is_open

    return opens


def _counted(rule: _BlockRule) -> _BlockRule:
    """Return a rule that also ends a list where its next item would exceed the limit."""

    def ends(state: StateBlock, start: int, end: int, silent: bool) -> bool:  # noqa: FBT001
        env = cast("dict[str, Any]", state.env)
        env["containers"] += 1
        return env["containers"] > CONTAINERS_MAX or rule(state, start, end, silent)

    return ends


_Piece: TypeAlias = tuple[int, int, MentionKind, str, str, bool]


def _read(content: str, references: Mapping[str, object]) -> list[_Piece]:
    """Return start, end, kind, id, name and silence of the mentions in a paragraph.

    This is CommonMark's way to find links: an opening bracket waits on a stack for its end. As a
    link cannot hold a link, one that is complete takes the meaning from all brackets around it
    that could begin another; so does a mention. Both limits say below which depth of the stack.
    """
    pieces: list[_Piece] = []
    brackets: list[tuple[str, int, int]] = []
    link_floor = mention_floor = 0
    passed = bracket = 0
    code: _CodeSpans | None = None
    for mark in _MARK.finditer(content):
        start, end = mark.span()
        if start < passed:
            continue
        text = mark[0]
        if text[0] == "\\":
            pass
        elif text[-1] == "[":
            brackets.append((text, start, end))
            bracket = end
        elif text == "]":
            if not brackets:
                continue
            opening, opened, label = brackets.pop()
            depth = len(brackets)
            may_mention = opening[0] == "@" and depth >= mention_floor
            may_link = opening == "![" or depth >= link_floor
            link_floor, mention_floor = min(link_floor, depth), min(mention_floor, depth)
            has_destination = content.startswith("(", end)
            if may_mention and has_destination:
                target = _TARGET.match(content, end)
                name = target and _name_in(content[label:start])
                if target and name:
                    kind = cast("MentionKind", target[1])
                    passed = target.end()
                    pieces.append((opened, passed, kind, target[2], name, opening == "@_["))
                    mention_floor = depth
                    continue
            if not may_link or not (has_destination or references):
                continue
            link = _end_of_destination(content, end) if has_destination else None
            if link is None and references:
                own = content[label:start] if bracket == label else ""
                link = _end_of_reference(content, own, end, references)
            if link is None:
                continue
            passed = link
            if opening != "![":
                link_floor = depth
            # What describes a picture is not said to its readers.
            while opening == "![" and pieces and pieces[-1][0] > opened:
                pieces.pop()
        elif text[0] == "`":
            code = code or _CodeSpans(content)
            passed = code.end_of(end, end - start) or end
        elif text == "<":
            passed = _end_of_tag(content, start) or end
    return pieces


def _name_in(label: str) -> str | None:
    """Return the name that a label spells, or None if it spells none."""
    if len(label) > _LABEL_CHARS_MAX or "\n" in label:
        return None
    name = _flat(_ESCAPED.sub(r"\1", label))
    return name if name and len(name) <= MENTION_NAME_CHARS_MAX else None


class _CodeSpans:
    """Where the runs of backticks in a paragraph are, by their length."""

    def __init__(self, content: str) -> None:
        self._runs: dict[int, list[int]] = {}
        for run in _RUN.finditer(content):
            self._runs.setdefault(run.end() - run.start(), []).append(run.start())

    def end_of(self, opened: int, length: int) -> int | None:
        """Return the end of the code span whose opening run ends somewhere, or None."""
        starts = self._runs.get(length, [])
        index = bisect_left(starts, opened)
        return starts[index] + length if index < len(starts) else None


def _end_of_tag(content: str, start: int) -> int | None:
    """Return the end of the address or HTML tag that begins with a ``<``, or None."""
    if (autolink := _AUTOLINK.match(content, start)) is not None:
        return autolink.end()
    # A comment without an end would be looked for to the end of the paragraph, each time anew.
    after = content[start + 1 : start + 3]
    ends = _TAG_ENDS.get(after) or _TAG_ENDS.get(after[:1]) or ">"
    if content.rfind(ends) < start:
        return None
    tag = _TAG.match(content, start)
    return None if tag is None else tag.end()


def _end_of_reference(
    content: str, own: str, end: int, references: Mapping[str, object]
) -> int | None:
    """Return the end of ``[label]`` after a link's text, which may be a label itself, or None."""
    reference = _LINK_LABEL.match(content, end)
    if reference is not None and reference[1]:
        return reference.end() if normalizeReference(reference[1]) in references else None
    if not own or len(own) > _LINK_LABEL_CHARS_MAX or normalizeReference(own) not in references:
        return None
    return end if reference is None else reference.end()


def _end_of_destination(content: str, start: int) -> int | None:
    """Return the end of ``(destination "title")``, or None if that is not what follows."""
    opened = _LINK_START.match(content, start)
    if opened is None:
        return None
    position = opened.end()
    destination = _POINTED if content.startswith("<", position) else _BARE
    if (match := destination.match(content, position)) is None:
        return None
    position = match.end()
    between = _BETWEEN.match(content, position)
    if between is not None and (title := _TITLE.match(content, between.end())) is not None:
        position = title.end()
    closed = _LINK_END.match(content, position)
    return None if closed is None else closed.end()
