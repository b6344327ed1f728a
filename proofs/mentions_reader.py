"""A second reading of mentions: CommonMark line by line, as its specification describes it.

It shares no code with ``turntree.conversations.mentions``, and goes another way wherever there is
one: blocks are opened and closed line by line instead of by nested calls, each character keeps its
place in the text, and the end of a bracket is looked for from its beginning. It is slow.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Literal

Place = tuple[str, str, str, bool, bool, int, int]
"""Kind, id, name, silent, quoted, start and end."""

NESTING = 8
PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
TARGET = re.compile(r"\((user|agent):([A-Za-z0-9_][A-Za-z0-9_.:/+-]{0,199})\)")
HTML_BLOCKS: tuple[tuple[str, str | None], ...] = (
    (r"<(?:script|pre|style|textarea)(?:\s|>|$)", r"(?i)</(?:script|pre|style|textarea)>"),
    (r"<!--", r"-->"),
    (r"<\?", r"\?>"),
    (r"<![A-Za-z]", r">"),
    (r"<!\[CDATA\[", r"\]\]>"),
    (
        (
            r"</?(?:address|article|aside|base|basefont|blockquote|body|caption|center|col|colgroup|dd"
            r"|details|dialog|dir|div|dl|dt|fieldset|figcaption|figure|footer|form|frame|frameset"
            r"|h[1-6]|head|header|hr|html|iframe|legend|li|link|main|menu|menuitem|nav|noframes|ol"
            r"|optgroup|option|p|param|search|section|summary|table|tbody|td|tfoot|th|thead|title|tr"
            r"|track|ul)(?:\s|/?>|$)"
        ),
        None,
    ),
)
ATTRIBUTE = (
    r"""[ \t\n]+[A-Za-z_:][\w.:-]*(?:[ \t\n]*=[ \t\n]*(?:[^ \t\n"'=<>`]+|'[^']*'|"[^"]*"))?"""
)
OPEN_TAG = rf"<[A-Za-z][A-Za-z0-9-]*(?:{ATTRIBUTE})*[ \t\n]*/?>"
CLOSE_TAG = r"</[A-Za-z][A-Za-z0-9-]*[ \t\n]*>"
HTML_ALONE = re.compile(rf"(?:{OPEN_TAG}|{CLOSE_TAG})[ \t]*$", re.ASCII)
HTML = [
    re.compile(pattern, re.ASCII)
    for pattern in (
        OPEN_TAG,
        CLOSE_TAG,
        r"<!-->",
        r"<!--->",
        r"<!--(?:(?!-->)[\s\S])*-->",
        r"<\?(?:(?!\?>)[\s\S])*\?>",
        r"<![A-Za-z][^>]*>",
        r"<!\[CDATA\[(?:(?!\]\]>)[\s\S])*\]\]>",
    )
]
URI = re.compile(r"<[A-Za-z][A-Za-z0-9+.-]{1,31}:[^\x00-\x20\x7f<>]*>")
LETTERS = "[A-Za-z0-9]"
DOMAIN = rf"{LETTERS}(?:[A-Za-z0-9-]{{0,61}}{LETTERS})?"
EMAIL = re.compile(rf"<[A-Za-z0-9.!#$%&'*+/=?^_`{{|}}~-]+@{DOMAIN}(?:\.{DOMAIN})*>")


@dataclass(slots=True)
class Block:
    """An open block: a container, or a leaf and its lines."""

    kind: Literal["document", "quote", "list", "item", "paragraph", "code", "fence", "html"]
    marker: str = ""
    indent: int = 0
    """Of an item's content, or of a fence."""
    ends: re.Pattern[str] | None = None
    is_empty: bool = True
    lines: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    """Each with its place in the text."""


def read_mentions(text: str) -> list[Place]:
    """Return the mentions in a text."""
    reader = Reader()
    pieces = re.split(r"(\r\n|\r|\n)", text.replace("\0", "\ufffd"))
    place = 0
    for number in range(0, len(pieces), 2):
        reader.following = pieces[number::2]
        reader.take(pieces[number], place)
        place += sum(map(len, pieces[number : number + 2]))
    reader.close_to(0)
    mentions: list[Place] = []
    for lines, quoted in reader.leaves:
        content = "\n".join(line for line, _ in lines)
        places = [at for line, begin in lines for at in range(begin, begin + len(line) + 1)]
        for start, end, kind, id, name, silent in Inlines(content, reader.labels).mentions():
            # A mention is within one line: its end is where its last character is, and one more.
            mentions.append((kind, id, name, silent, quoted, places[start], places[end - 1] + 1))
    return mentions


class Reader:
    """Takes a text line by line."""

    def __init__(self) -> None:
        """Begin with an open document."""
        self.open = [Block("document")]
        self.leaves: list[tuple[list[tuple[str, int]], bool]] = []
        self.labels: set[str] = set()
        self.following: list[str] = []
        """This line and those after it."""
        self.line, self.place = "", 0
        self.at = self.column = 0
        self.left_of_tab = 0

    def take(self, line: str, place: int) -> None:
        """Take the next line."""
        self.line, self.place = line, place
        self.at = self.column = self.left_of_tab = 0
        matched = self.match_open()
        if matched is None:
            return
        tip = self.open[-1]
        was_all_matched = matched == len(self.open)
        container = self.open[matched - 1]
        may_be_lazy = tip.kind == "paragraph" and not was_all_matched
        if tip.kind == "paragraph" and self.is_definition_over(tip):
            # It is a block of its own, and not the paragraph that it began as: the specification
            # leaves that open, and markdown-it reads it so. No line goes on with it lazily.
            self.close_to(len(self.open) - 1)
            matched, may_be_lazy = min(matched, len(self.open)), False
            container = self.open[matched - 1]
        if container.kind not in ("fence", "html", "code"):
            while True:
                started = self.start(matched, may_be_lazy=may_be_lazy)
                if started is None:
                    break
                matched, may_be_lazy, is_leaf = started, False, self.open[-1].kind in LEAVES
                container = self.open[-1]
                if is_leaf:
                    break
        rest, begin = self.rest()
        is_blank = not rest.strip(" \t")
        if may_be_lazy and matched < len(self.open) and not is_blank:
            self.open[-1].lines.append((rest.lstrip(" \t"), begin + indent_of(rest)))
            return
        self.close_to(matched)
        container = self.open[-1]
        match container.kind:
            case "paragraph":
                container.lines.append((rest.lstrip(" \t"), begin + indent_of(rest)))
            case "html":
                if container.ends is not None and container.ends.search(rest):
                    self.close_to(len(self.open) - 1)
            case "fence" | "code":
                pass
            case _:
                if not is_blank:
                    self.touch()
                    self.open.append(Block("paragraph"))
                    self.open[-1].lines.append((rest.lstrip(" \t"), begin + indent_of(rest)))

    def match_open(self) -> int | None:
        """Return how many of the open blocks go on; None if the line only ends a fence."""
        for number, block in enumerate(self.open):
            indent, is_blank = self.indent()
            character = self.peek()
            match block.kind:
                case "document" | "list":
                    goes_on = True
                case "quote":
                    goes_on = indent <= 3 and character == ">"
                    if goes_on:
                        self.pass_quote()
                case "item":
                    if is_blank:
                        goes_on = not block.is_empty
                        if goes_on:
                            self.skip_blanks()
                    else:
                        goes_on = indent >= block.indent
                        if goes_on:
                            self.skip(block.indent)
                case "paragraph":
                    goes_on = not is_blank
                case "html":
                    goes_on = block.ends is not None or not is_blank
                case "code":
                    goes_on = indent >= 4 or is_blank
                case "fence":
                    goes_on = True
                    closing = self.line[self.first() :].rstrip(" \t")
                    if (
                        indent <= 3
                        and len(closing) >= len(block.marker)
                        and closing == block.marker[0] * len(closing)
                    ):
                        self.close_to(number)
                        return None
            if not goes_on:
                return number
        return len(self.open)

    def start(self, matched: int, *, may_be_lazy: bool) -> int | None:  # noqa: PLR0911 - a case each
        """Open the block that begins here and return how many are open then, or None."""
        indent, is_blank = self.indent()
        if is_blank:
            return None
        container = self.open[matched - 1]
        if indent >= 4:
            if may_be_lazy or container.kind == "paragraph":
                return None
            self.close_to(matched)
            return self.add(Block("code"))
        begin = self.first()
        rest = self.line[begin:]
        if rest[0] == ">":
            if not self.has_room(matched):
                return self.give_up(matched)
            self.close_to(matched)
            self.leave_list()
            self.pass_quote()
            return self.add(Block("quote"))
        if (heading := re.match(r"#{1,6}(?:[ \t]+|$)", rest)) is not None:
            self.close_to(matched)
            self.leave_list()
            words = re.sub(r"(?:^|[ \t]+)#+[ \t]*$", "", rest[heading.end() :]).rstrip(" \t")
            self.touch()
            self.leaves.append(([(words, self.place + begin + heading.end())], self.is_quoted()))
            self.at = len(self.line)
            return None
        if (fence := re.match(r"`{3,}(?!.*`)|~{3,}", rest)) is not None:
            self.close_to(matched)
            self.at = len(self.line)
            self.leave_list()
            return self.add(Block("fence", marker=fence[0], indent=indent))
        if rest[0] == "<":
            for starts, ends in HTML_BLOCKS:
                if re.match(starts, rest, re.IGNORECASE):
                    self.close_to(matched)
                    self.leave_list()
                    return self.add(Block("html", ends=re.compile(ends) if ends else None))
            is_paragraph = container.kind == "paragraph" or may_be_lazy
            if not is_paragraph and HTML_ALONE.match(rest):
                self.close_to(matched)
                self.leave_list()
                return self.add(Block("html"))
        if container.kind == "paragraph" and re.fullmatch(r"(?:=+|-+)[ \t]*", rest):
            self.take_definitions(container)
            if container.lines:
                self.open.pop()
                self.leaves.append((trimmed(container.lines), self.is_quoted()))
                self.at = len(self.line)
                return None
        if re.fullmatch(r"(?:(?:\*[ \t]*){3,}|(?:_[ \t]*){3,}|(?:-[ \t]*){3,})", rest):
            self.close_to(matched)
            self.leave_list()
            self.touch()
            self.at = len(self.line)
            return None
        return self.start_item(matched, indent, rest)

    def start_item(self, matched: int, indent: int, rest: str) -> int | None:
        """Open an item, and a list where it is the first, and return how many are open then."""
        container = self.open[matched - 1]
        item = re.match(r"([-+*])(?=[ \t]|$)|(\d{1,9})([.)])(?=[ \t]|$)", rest, re.ASCII)
        if item is None:
            return None
        if container.kind == "paragraph":
            is_first_blank = not rest[item.end() :].strip(" \t")
            if is_first_blank or (item[2] is not None and int(item[2]) != 1):
                return None
        marker = item[1] or item[3]
        is_next = container.kind == "list" and container.marker == marker
        if not is_next and not self.has_room(matched):
            return self.give_up(matched)
        self.close_to(matched)
        self.skip_blanks()
        self.skip(item.end())
        spaces, is_blank = self.indent()
        if is_blank:
            content = 1
            if self.at < len(self.line):
                self.skip(1)
        elif spaces >= 5:
            content = 1
            self.skip(1)
        else:
            content = spaces
            self.skip(spaces)
        if not is_next:
            self.leave_list()
            self.add(Block("list", marker=marker))
        self.open.append(Block("item", indent=indent + item.end() + content))
        return len(self.open)

    def has_room(self, matched: int) -> bool:
        """Say whether another container may be opened below these."""
        holds = self.open[:matched]
        if holds[-1].kind == "list":
            holds = holds[:-1]
        return sum(block.kind in ("quote", "list") for block in holds) < NESTING

    def give_up(self, matched: int) -> int | None:
        """Take the mark of a container that is one too many as text."""
        if self.open[matched - 1].kind == "paragraph":
            return None
        self.close_to(matched)
        self.leave_list()
        return self.add(Block("paragraph"))

    def add(self, block: Block) -> int:
        """Open a block and return how many are open."""
        self.touch()
        self.open.append(block)
        return len(self.open)

    def touch(self) -> None:
        """Note that the innermost block holds something."""
        if self.open[-1].kind == "paragraph":
            self.close_to(len(self.open) - 1)
        self.leave_list()
        self.open[-1].is_empty = False

    def leave_list(self) -> None:
        """Close a list that is innermost: what comes is not an item of it."""
        if self.open[-1].kind == "paragraph":
            self.close_to(len(self.open) - 1)
        if self.open[-1].kind == "list":
            self.open.pop()

    def close_to(self, count: int) -> None:
        """Close all but so many blocks."""
        while len(self.open) > count:
            block = self.open.pop()
            if block.kind == "paragraph":
                self.take_definitions(block)
                if block.lines:
                    self.leaves.append((trimmed(block.lines), self.is_quoted()))

    def is_quoted(self) -> bool:
        """Say whether a quote is open."""
        return any(block.kind == "quote" for block in self.open)

    def take_definitions(self, block: Block) -> None:
        """Take the link reference definitions from the beginning of a paragraph."""
        while block.lines and block.lines[0][0].startswith("["):
            content = "\n".join(line for line, _ in block.lines)
            taken = definition(content)
            if taken is None:
                return
            label, end = taken
            self.labels.add(label)
            del block.lines[: content.count("\n", 0, end)]
            if end >= len(content):
                block.lines.clear()

    def is_definition_over(self, block: Block) -> bool:
        """Say whether a paragraph is definitions so far, and this line no part of the last one."""
        content = "\n".join(line for line, _ in block.lines)
        lines = list(takewhile(str.strip, (line.strip(" \t") for line in self.following)))
        whole = "\n".join([content, *lines])
        at = 0
        while at <= len(content) and (taken := definition(whole[at:])) is not None:
            at += taken[1]
        return at == len(content) + 1

    def first(self) -> int:
        """Return where in the line the first character is that is not blank."""
        at = self.at
        while at < len(self.line) and self.line[at] in " \t":
            at += 1
        return at

    def peek(self) -> str:
        """Return the first character that is not blank, or nothing."""
        return self.line[self.first() : self.first() + 1]

    def indent(self) -> tuple[int, bool]:
        """Return the columns before the first character, and whether there is none."""
        column, first = self.column + self.left_of_tab, self.first()
        at = self.at + (1 if self.left_of_tab else 0)
        for character in self.line[at:first]:
            column += 4 - column % 4 if character == "\t" else 1
        return column - self.column, first == len(self.line)

    def skip_blanks(self) -> None:
        """Go to the first character that is not blank."""
        self.skip(self.indent()[0])

    def skip(self, columns: int) -> None:
        """Go on by columns; of a tab, some of its columns may remain."""
        while columns > 0 and self.at < len(self.line):
            if self.line[self.at] == "\t":
                width = self.left_of_tab or 4 - self.column % 4
                step = min(width, columns)
                self.left_of_tab = width - step
                self.at += self.left_of_tab == 0
            else:
                step = 1
                self.at += 1
            self.column += step
            columns -= step

    def pass_quote(self) -> None:
        """Go past the mark of a quote, and past one blank after it."""
        self.skip_blanks()
        self.skip(1)
        if self.line[self.at : self.at + 1] in (" ", "\t"):
            self.skip(1)

    def rest(self) -> tuple[str, int]:
        """Return what is left of the line, and its place in the text."""
        return self.line[self.at :], self.place + self.at


LEAVES = ("paragraph", "code", "fence", "html")


def indent_of(line: str) -> int:
    """Return how many blanks a line begins with."""
    return len(line) - len(line.lstrip(" \t"))


def trimmed(lines: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return lines without blanks at the end of the last one."""
    *before, (last, place) = lines
    return [*before, (last.rstrip(" \t"), place)]


def folded(label: str) -> str:
    """Return a link label as labels are compared."""
    return re.sub(r"[ \t\n]+", " ", label.strip(" \t\n")).casefold()


def definition(content: str) -> tuple[str, int] | None:
    """Return the label of the definition at the beginning of a text, and its end."""
    label_end = end_of_label(content, 0)
    if label_end is None or content[label_end : label_end + 1] != ":":
        return None
    label = folded(content[1 : label_end - 1])
    at = past_blanks(content, label_end + 1)
    end = end_of_destination(content, at)
    if not label or end is None or end == at:
        return None
    line_end = rest_of_line(content, end)
    title_at = past_blanks(content, end)
    title_end = end_of_title(content, title_at) if title_at > end else None
    if title_end is not None and (with_title := rest_of_line(content, title_end)) is not None:
        return label, with_title
    return None if line_end is None else (label, line_end)


def rest_of_line(content: str, at: int) -> int | None:
    """Return the beginning of the next line if nothing but blanks is left of this one."""
    while content[at : at + 1] in (" ", "\t"):
        at += 1
    if at >= len(content):
        return len(content)
    return at + 1 if content[at] == "\n" else None


def end_of_label(content: str, at: int) -> int | None:
    """Return the end of the link label that begins at a bracket, or None."""
    if content[at : at + 1] != "[":
        return None
    end = at + 1
    while end < len(content) and content[end] not in "[]":
        end += 2 if content[end] == "\\" and content[end + 1 : end + 2] in PUNCTUATION else 1
    if content[end : end + 1] != "]" or end - at - 1 > 999:
        return None
    return end + 1


def past_blanks(content: str, at: int) -> int:
    """Return the place after blanks and at most one end of a line."""
    lines = 0
    while at < len(content) and content[at] in " \t\n":
        lines += content[at] == "\n"
        if lines > 1:
            break
        at += 1
    return at


def end_of_destination(content: str, at: int) -> int | None:
    """Return the end of a link's destination, which may be empty, or None."""
    if content[at : at + 1] == "<":
        at += 1
        while at < len(content) and content[at] not in "<>\n":
            at += 2 if content[at] == "\\" and content[at + 1 : at + 2] in PUNCTUATION else 1
        return at + 1 if content[at : at + 1] == ">" else None
    level = 0
    while at < len(content) and content[at] > " " and content[at] != "\x7f":
        character = content[at]
        if character == "\\" and content[at + 1 : at + 2] in PUNCTUATION:
            at += 1
        elif character == "(":
            level += 1
        elif character == ")":
            if level == 0:
                break
            level -= 1
        if level > 3:
            return None
        at += 1
    return at if level == 0 else None


def end_of_title(content: str, at: int) -> int | None:
    """Return the end of a link's title, or None if there is none."""
    opened = content[at : at + 1]
    if opened not in ('"', "'", "("):
        return None
    closed = ")" if opened == "(" else opened
    at += 1
    while at < len(content) and content[at] != closed:
        if content[at] == "(" and opened == "(":
            return None
        at += 2 if content[at] == "\\" and content[at + 1 : at + 2] in PUNCTUATION else 1
    return at + 1 if at < len(content) else None


Found = tuple[int, int, str, str, str, bool]


@dataclass(slots=True)
class Construct:
    """A link, image or mention; or a bracket that is none and what was seen within it."""

    kind: Literal["link", "image", "mention", "text"]
    label: int
    label_end: int
    end: int
    has_link: bool
    has_mention: bool


class Inlines:
    """Reads the text of a paragraph."""

    def __init__(self, content: str, labels: set[str]) -> None:
        """Take the text and the labels of the links that are defined."""
        self.content = content
        self.labels = labels
        self.known: dict[int, Construct | None] = {}

    def mentions(self) -> list[Found]:
        """Return start, end, kind, id, name and silence of each mention."""
        return list(self.within(0, len(self.content)))

    def within(self, at: int, end: int) -> Iterator[Found]:
        """Yield the mentions in a part of the text."""
        while at < end:
            passed = self.atom(at)
            if passed is not None:
                at = passed
                continue
            construct = self.construct(at)
            if construct is None or construct.kind == "text":
                at += 1
                continue
            if construct.kind == "mention":
                target = TARGET.match(self.content, construct.label_end + 1)
                assert target is not None
                silent = self.content.startswith("@_", at)
                name = self.name(construct)
                yield at, construct.end, target[1], target[2], name, silent
            elif construct.kind == "link":
                yield from self.within(construct.label, construct.label_end)
            at = construct.end

    def name(self, construct: Construct) -> str:
        """Return the name in a label."""
        label = self.content[construct.label : construct.label_end]
        characters: list[str] = []
        at = 0
        while at < len(label):
            if label[at] == "\\" and label[at + 1 : at + 2] in PUNCTUATION:
                at += 1
                characters.append(label[at])
            elif label[at] <= " " or "\x7f" <= label[at] <= "\xa0" or label[at] in "\u2028\u2029":
                characters.append(" ")
            else:
                characters.append(label[at])
            at += 1
        return " ".join(word for word in "".join(characters).split(" ") if word)

    def atom(self, at: int) -> int | None:
        """Return the end of an escape, a code span, an address or a tag, or None."""
        content = self.content
        match content[at]:
            case "\\":
                return at + 2 if content[at + 1 : at + 2] in PUNCTUATION else None
            case "`":
                run = len(content) - at - len(content[at:].lstrip("`"))
                for found in re.finditer("`+", content[at + run :]):
                    if len(found[0]) == run:
                        return at + run + found.end()
                return at + run
            case "<":
                for pattern in (URI, EMAIL, *HTML):
                    if (tag := pattern.match(content, at)) is not None:
                        return tag.end()
                return None
            case _:
                return None

    def construct(self, at: int) -> Construct | None:
        """Return what begins at a place with a bracket; None where there is none, or no end."""
        if at not in self.known:
            self.known[at] = self._construct(at)
        return self.known[at]

    def _construct(self, at: int) -> Construct | None:
        content = self.content
        opened = next((o for o in ("@_[", "@[", "![", "[") if content.startswith(o, at)), None)
        if opened is None:
            return None
        label = at + len(opened)
        level, place = 1, label
        has_link = has_mention = has_bracket = False
        while True:
            if place >= len(content):
                return None
            if content[place] == "]":
                level -= 1
                if level == 0:
                    break
                place += 1
                continue
            if (passed := self.atom(place)) is not None:
                place = passed
                continue
            inner = self.construct(place)
            opens = next((o for o in ("@_[", "@[", "![", "[") if content.startswith(o, place)), "")
            has_bracket |= bool(opens)
            if inner is not None:
                has_link |= inner.has_link or inner.kind == "link"
                has_mention |= inner.has_mention or inner.kind == "mention"
            if inner is not None and inner.kind != "text":
                place = inner.end
            elif opens:
                level += 1
                place += len(opens)
            else:
                place += 1
        made = Construct("text", label, place, place + 1, has_link, has_mention)
        if opened[0] == "@" and not has_mention:
            target = TARGET.match(content, place + 1)
            name = self.name(made)
            is_short = place - label <= 400 and 0 < len(name) <= 200
            if target is not None and is_short and "\n" not in content[label:place]:
                made.kind, made.end = "mention", target.end()
                return made
        if opened == "![" or not has_link:
            end = self.end_of_link(label, place, has_bracket=has_bracket)
            if end is not None:
                made.kind, made.end = "image" if opened == "![" else "link", end
        return made

    def end_of_link(self, label: int, label_end: int, *, has_bracket: bool) -> int | None:
        """Return the end of a link whose label is known, or None."""
        content = self.content
        after = label_end + 1
        if content[after : after + 1] == "(":
            end = end_of_destination(content, past_blanks(content, after + 1))
            if end is not None:
                title = past_blanks(content, end)
                titled = end_of_title(content, title) if title > end else None
                closed = past_blanks(content, end if titled is None else titled)
                if content[closed : closed + 1] == ")":
                    return closed + 1
        reference_end = end_of_label(content, after)
        if reference_end is not None and reference_end > after + 2:
            known = folded(content[after + 1 : reference_end - 1]) in self.labels
            return reference_end if known else None
        if has_bracket or label_end - label > 999:
            return None
        if folded(content[label:label_end]) not in self.labels:
            return None
        return after if reference_end is None else reference_end
