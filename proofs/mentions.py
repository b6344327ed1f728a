"""Mentions are where CommonMark has text, and no post takes long to read.

* ``posts``: in generated posts, rich in code, escapes, brackets, quotes, lists, links, tags and
  random characters, ``find_mentions`` finds what a second reader finds that shares no code with it
  (``proofs/mentions_reader.py``), at the same places.
* ``written``: each mention that was found, written anew from its parts, makes a text with the same
  mentions; writing them once more changes nothing.
* ``nesting``: 64 KB of the worst texts, and of texts that stay just below each limit, cost at most
  three times what markdown-it-py needs for 64 KB of plain text in the same run.

markdown-it-py decides the blocks, and differs from the specification in two corners: for lines
that are indented by four columns or a tab and would go on lazily, in quotes and lists, and for
blanks of Unicode after a tag. Posts that have one are counted apart: few of them may differ.
"""

import random
import re
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial

from markdown_it import MarkdownIt

from proofs.figures import Proof, run
from proofs.mentions_reader import Place, read_mentions
from turntree.conversations.mentions import (
    PARAGRAPH_CHARS_MAX,
    PARAGRAPH_MARKS_MAX,
    POST_BYTES_MAX,
    POST_LINES_MAX,
    POST_MARKS_MAX,
    Mention,
    MentionKind,
    find_mentions,
    write_mention,
)

POSTS, POSTS_QUICK = 1_000_000, 20_000
CONTESTED_BAR = 0.02
"""Of the posts in which markdown-it and the specification may differ, so many do at most."""
NESTING_BAR = 3
ROUNDS, ROUNDS_QUICK = 15, 5
WORST = 8
"""So many of the hostile posts are read again and again: those that took longest once."""
SHOWN_MAX = 3
MENTION = "@[A](user:a)"

NAMES = (
    *("A", "Ana B", "a [b] c", "[x]", "a\\]b", "`c`", "a`", "<b>", "<i", "*a*", "_", "&amp;", "ö"),
    *("a\\\\", "a\nb", " ", "", "!", "@x", "a](b)", "|", "a\tb", "\u2028"),
)
IDS = (
    *("ana", "a-1", "agent:x", "01m7hzzzzzzzzzzzzzzzzzzzzz", "_x", "x y", "", "-a"),
    "0190aaaa-bbbb-7ccc-8ddd-eeeeeeeeeeee",
)
PIECES = (
    *("[", "]", "(", ")", "![", "`", "``", "```", "\\", "<", ">", "<a ", '<a b="', "<b>", "</b>"),
    *("<!--", "-->", "<?", "?>", "<http://", "<x@y.z>", "http://", "*", "**", "_", "~~", "@", "@["),
    *(
        "@_[",
        "](",
        "[a](",
        "[a](b)",
        "[a](<b",
        '> ) "',
        '](b "',
        '" )',
        "[r]",
        "[r][",
        "][r]",
        "[]",
    ),
    *("&amp;", "&#64;", "a", "b c", "é", "\u2028", " ", "  ", "\t", "](user:a)", "](agent:b-1)"),
    *("(user:x)", "'", '"', "!", "<![CDATA[", "]]>", "<!A", "\\[", "\\]", "\\`", "\\@", "\x00"),
    *("1", "-", "=", "#", "|", "\n"),
)
BEGINNINGS = (
    *(
        "> ",
        ">",
        "- ",
        "-",
        "* ",
        "+ ",
        "1. ",
        "2) ",
        "10. ",
        "    ",
        "  ",
        "   ",
        "\t",
        "# ",
        "## ",
    ),
    *(
        "```",
        "~~~",
        "```x",
        "---",
        "***",
        "===",
        "-----",
        "[r]: b",
        "[r]:",
        "[r]: <b> 'c'",
        "<div>",
    ),
    *("</div>", "<pre>", "</pre>", "<!--", "-->", "<a>", "", "", "", "#", "> > ", "- - ", "> - "),
    *("      ", "\\", "     )"),
)
CONTAINERS = ("> ", "- ", "  ", "   ", "1. ", ">", "    ")
PREFIX = re.compile(r"[ \t>*+\-0-9.)]*")
DEEP = re.compile(r" {4}|\t")
CONTAINER = re.compile(r"[>*+-]|\d[.)]")
ODD_BLANK = re.compile(r"<[^\n\r]*[^\S \t\n\r]")


async def prove(proof: Proof) -> None:
    """Compare two readers, write what was found, and take the time of the worst posts."""
    count = POSTS_QUICK if proof.quick else POSTS
    if proof.begins("posts"):
        prove_posts(proof, count)
    if proof.begins("written"):
        prove_written(proof, count // 4)
    if proof.begins("nesting"):
        prove_nesting(proof, ROUNDS_QUICK if proof.quick else ROUNDS)


def prove_posts(proof: Proof, count: int) -> None:
    """Have two readers find the mentions in the same posts."""
    mentions = differing = contested = contested_differing = 0
    for text in draw_posts(proof.seed, count):
        places = [place_of(mention) for mention in find_mentions(text)]
        mentions += len(places)
        is_contested = may_be_contested(text)
        contested += is_contested
        if places != (others := read_mentions(text)):
            contested_differing += is_contested
            differing += not is_contested
            if not is_contested and differing <= SHOWN_MAX:
                print(f"{text!r}\n  {places}\n  {others}", flush=True)
    proof.note("posts", count, "posts")
    proof.at_least("mentions in them", mentions, "mentions", count / 3)
    proof.at_most("posts that the readers differ about", differing, "posts", 0)
    proof.note("posts that markdown-it may read differently", contested, "posts")
    share = contested_differing / max(contested, 1)
    proof.at_most("share of those that the readers differ about", share, "", CONTESTED_BAR)


def prove_written(proof: Proof, count: int) -> None:
    """Write the mentions of posts anew, and any name at all."""
    changed = unsteady = lost = 0
    for text in draw_posts(proof.seed + 1, count):
        if "](<" in text:  # An address in angle brackets, which ends at a bracket that is escaped.
            continue
        found = find_mentions(text)
        written = rewrite(text, found)
        again = find_mentions(written)
        changed += [parts_of(mention) for mention in again] != [parts_of(one) for one in found]
        unsteady += rewrite(written, again) != written
    chance = random.Random(proof.seed + 2)
    for _ in range(count):
        name = "".join(draw_inline(chance, 5))
        text = write_mention("user", "ana", name)
        (mention,) = find_mentions(f"> a {text}") or (None,)
        lost += mention is None or write_mention("user", "ana", mention.name) != text
    proof.at_most("posts that mention others once rewritten", changed, "posts", 0)
    proof.at_most("posts that change when they are rewritten again", unsteady, "posts", 0)
    proof.at_most("names that were not found as they were written", lost, "names", 0)


def prove_nesting(proof: Proof, rounds: int) -> None:
    """Take the time of the worst posts, in turns with a parser that reads plain text."""
    plain = plain_post()
    stock = MarkdownIt("commonmark")
    shapes = {name: text for name, text in hostile_posts().items() if find_mentions(text)}
    once = {name: seconds(partial(find_mentions, text)) for name, text in shapes.items()}
    worst = sorted(once, key=once.__getitem__)[-WORST:]
    took: dict[str, list[float]] = {name: [] for name in worst}
    base: list[float] = []
    ours: list[float] = []
    for _ in range(rounds):
        for name in worst:
            took[name].append(seconds(partial(find_mentions, shapes[name])))
            base.append(seconds(partial(stock.parse, plain)))
            ours.append(seconds(partial(find_mentions, plain)))
    bar_s = statistics.median(base)
    medians = {name: statistics.median(times) for name, times in took.items()}
    slowest = max(medians, key=medians.__getitem__)
    proof.note("hostile posts", len(shapes), "posts")
    proof.note("plain text, read by markdown-it", bar_s * 1000, "ms")
    proof.note("plain text, read for its mentions", statistics.median(ours) * 1000, "ms")
    proof.note(f"the worst post: {slowest}", medians[slowest] * 1000, "ms")
    proof.at_most(
        "its time over that of plain text", medians[slowest] / bar_s, "", NESTING_BAR, of="time"
    )


def draw_posts(seed: int, count: int) -> Iterator[str]:
    """Yield posts, most of which mention."""
    chance = random.Random(seed)
    for _ in range(count):
        lines: list[str] = []
        prefix = ""
        for _ in range(chance.randrange(1, chance.choice((2, 4, 8)))):
            drawn = chance.random()
            if drawn < 0.15:
                prefix = "".join(chance.choices(CONTAINERS, k=chance.randrange(4)))
            elif drawn < 0.25:  # The next line of an item.
                prefix = prefix.replace("-", " ").replace("1.", "  ")
            elif drawn < 0.35:
                prefix = ""
            beginning = "".join(chance.choices(BEGINNINGS, k=chance.choice((0, 0, 0, 1, 1, 2))))
            lines.append(
                prefix + beginning + "".join(draw_inline(chance, chance.choice((1, 3, 6, 9))))
            )
        text = chance.choice(("\n", "\n", "\n", "\r\n", "\r", "\n\n")).join(lines)
        yield text + draw_mention(chance) if chance.random() < 0.5 else text


def draw_inline(chance: random.Random, count: int) -> Iterator[str]:
    """Yield pieces of text."""
    for _ in range(chance.randrange(count)):
        drawn = chance.random()
        if drawn < 0.3:
            yield draw_mention(chance)
        elif drawn < 0.95:
            yield chance.choice(PIECES)
        else:
            yield chr(chance.choice((chance.randrange(128), chance.randrange(0xD800))))


def draw_mention(chance: random.Random) -> str:
    """Return a mention, or nearly one."""
    kind = chance.choice(("user", "user", "agent", "agent", "file", "User"))
    silent = "_" if chance.random() < 0.2 else ""
    return f"@{silent}[{chance.choice(NAMES)}]({kind}:{chance.choice(IDS)})"


def may_be_contested(text: str) -> bool:
    """Say whether markdown-it may read a text differently from the specification."""
    prefixes = [found[0] for line in re.split(r"\r\n?|\n", text) if (found := PREFIX.match(line))]
    is_deep = any(DEEP.search(prefix) for prefix in prefixes)
    has_container = any(CONTAINER.search(prefix) for prefix in prefixes)
    return (is_deep and has_container) or ODD_BLANK.search(text) is not None


def parts_of(mention: Mention) -> tuple[MentionKind, str, str, bool, bool]:
    """Return all of a mention but its place."""
    return mention.kind, mention.id, mention.name, mention.silent, mention.quoted


def place_of(mention: Mention) -> Place:
    """Return a mention as the second reader does."""
    return (*parts_of(mention), mention.start, mention.end)


def rewrite(text: str, mentions: tuple[Mention, ...]) -> str:
    """Return a text whose mentions are written anew."""
    for mention in reversed(mentions):
        written = write_mention(mention.kind, mention.id, mention.name, silent=mention.silent)
        text = text[: mention.start] + written + text[mention.end :]
    return text


def plain_post() -> str:
    """Return 64 KB of words in lines and paragraphs."""
    chance = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(chance.choices(letters, k=chance.randrange(2, 10))) for _ in range(13 * 1000)]
    lines = [" ".join(words[at : at + 13]) for at in range(0, len(words), 13)]
    paragraphs = ["\n".join(lines[at : at + 5]) for at in range(0, len(lines), 5)]
    return "\n\n".join(paragraphs)[: POST_BYTES_MAX - 100] + f"\n\n{MENTION}"


MARKS = (
    *("[", "@[", "@[x", "![", "[]", "[a](", "[a]", "*_", "**a *", "`a", "<", "<a ", "<!--", "\\"),
    *("<!-- -->", '<a b="', '[a](b "', "[a](<b", MENTION, "<http://a>", "[a][r]", "[r]", "[a](b)"),
    *("@[a]", "]", "``a`", "&amp;", "_a_", "[a](((", "<a b='"),
)
LINES = {
    "lines": "a\n",
    "paragraphs": "a\n\n",
    "quote": "> a\n",
    "quotes": "> a\n\n",
    "headings": "#\n",
    "items": "- a\n",
    "items apart": "- a\n\n",
    "numbers": "1. a\n",
    "fences": "```\n",
    "definitions": "[a]: b\n",
    "definitions in two lines": "[a]:\nb\n",
    "titles that do not end": "[a]: b '\n",
    "labels that do not end": "[a\n",
    "rules": "***\n",
    "underlines": "a\n=\n",
    "code": "    a\n\n",
    "tags": "<a>\n",
    "comments": "<!--\n",
    "lists in a quote": "> - a\n",
    "quotes and lists": "> a\n- a\n",
    "two kinds of list": "- a\n1. a\n",
    "mentions": f"{MENTION}\n",
    "mentions in items": f"- {MENTION}\n",
    "mentions in a quote": f"> {MENTION}\n",
    "mentions in headings": f"# {MENTION}\n",
    "mentions apart": f"{MENTION}\n\n",
}
DEPTHS = (2, 4, 6, 8, 9, 20, 50)


def hostile_posts() -> dict[str, str]:
    """Return posts of 64 KB, or of as many lines as a post may have, each with a mention."""
    shapes: dict[str, str] = {}
    for mark in MARKS:
        shapes[f"{mark} in one paragraph"] = filled(mark, 1) + MENTION
        marks = max(count_marks(mark), 1)
        times = min((PARAGRAPH_MARKS_MAX - 6) // marks, (PARAGRAPH_CHARS_MAX - 99) // len(mark))
        shapes[f"{mark} in paragraphs"] = filled(f"{mark * times}{MENTION}\n\n", 2)
    shapes["pairs of brackets"] = filled(f"{'[' * 290}{MENTION}{']' * 290}\n\n", 2)
    shapes["runs of backticks"] = filled(
        "".join("`" * length + " " for length in range(1, 33)) + MENTION + "\n\n", 2
    )
    shapes |= {name: filled(unit, unit.count("\n")) for name, unit in LINES.items()}
    for depth in DEPTHS:
        for mark in ("> ", "- ", "> - ", "1. "):
            nest = mark * (2 * depth // len(mark))
            inner = " " * len(nest)
            shapes[f"{nest}a, and lines"] = f"{nest}a\n" + filled("a\n", 1)
            shapes[f"lines of {nest}a"] = filled(f"{nest}a\n", 1)
            shapes[f"paragraphs of {nest}a"] = filled(f"{nest}a\n\n", 2)
            shapes[f"{nest}a, and lines within"] = f"{nest}a\n" + filled(f"{inner}a\n", 1)
            shapes[f"{nest}a, and items within"] = f"{nest}a\n" + filled(f"{inner}- a\n", 1)
            shapes[f"{nest}a, and paragraphs within"] = f"{nest}a\n" + filled(f"\n{inner}a\n", 2)
        stairs = "".join("> " * (step % depth) + "a\n" for step in range(depth))
        shapes[f"stairs of {depth} quotes"] = filled(stairs, depth)
    shapes["stairs of lists"] = "".join(f"{' ' * 2 * step}- a\n" for step in range(250))
    ending = f"\n\n{MENTION}"
    return {name: text.rstrip("\n") + ending for name, text in shapes.items()}


def filled(unit: str, lines: int) -> str:
    """Return a unit as often as a post may have it, with room for a few lines more."""
    by_lines = (POST_LINES_MAX - 10) // lines
    by_marks = (POST_MARKS_MAX - 200) // max(count_marks(unit), 1)
    return unit * min(by_lines, by_marks, (POST_BYTES_MAX - 400) // len(unit.encode()))


def count_marks(text: str) -> int:
    """Return how many marks of Markdown a text has, as the limits count them."""
    return sum(map(text.count, "*_~[]!`<\\"))


def seconds(work: Callable[[], object]) -> float:
    """Return the CPU time of a piece of work."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


if __name__ == "__main__":
    run(
        prove,
        "mentions are where CommonMark has text, and cost no more than three times plain text",
    )
