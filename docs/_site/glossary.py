"""Links the first use of each glossary word on a page to its definition, and checks every link.

Hooks of mkdocs: the pages themselves stay plain Markdown.
"""

import html
import re
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from mkdocs.exceptions import PluginError
from mkdocs.utils import get_relative_url

GLOSSARY: Final = "glossary.md"
DEFINITION: Final = re.compile(r"\*\*([^*]+)\.\*\* ([^.]+\.)")
TAG: Final = re.compile(r"(<[^>]+>)")
ID: Final = re.compile(r'\bid="?([^" >]+)')
HREF: Final = re.compile(r'<a\b[^>]*?\bhref="([^"]*)"')
ELEMENT: Final = re.compile(r"<(/?)(a|code|pre|h[1-6]|summary|script|style|svg)\b")
# As everyday words they would be linked where they mean something else.
EVERYDAY: Final = {
    "access",
    "body",
    "code",
    "id",
    "object",
    "position",
    "search",
    "source",
    "state",
}


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Give every definition of the glossary an anchor."""
    if page.file.src_uri != GLOSSARY:
        return markdown
    return DEFINITION.sub(lambda it: f'<a id="{anchor(it[1])}"></a>{it[0]}', markdown)


def on_page_content(content: str, page: Any, config: Any, files: Any) -> str:
    """Link the first use of each word, outside of code, headings and other links."""
    if page.file.src_uri == GLOSSARY:
        return content
    words = definitions(Path(config.docs_dir) / GLOSSARY)
    address = get_relative_url(files.get_file_from_path(GLOSSARY).url, page.url)
    pattern = re.compile(
        r"\b(" + "|".join(sorted(map(re.escape, words), key=len, reverse=True)) + r")(?=s?\b)",
        re.IGNORECASE,
    )
    seen: set[str] = set()
    depth = 0

    def link(match: re.Match[str]) -> str:
        word = match[1].lower()
        if word in seen:
            return match[0]
        seen.add(word)
        name, text = words[word]
        title = html.escape(re.sub(r"[`*]", "", text))
        return f'<a class="term" href="{address}#{anchor(name)}" title="{title}">{match[0]}</a>'

    pieces = TAG.split(content)
    for number, piece in enumerate(pieces):
        if element := ELEMENT.match(piece):
            depth += -1 if element[1] else 1
        elif not depth and not piece.startswith("<"):
            pieces[number] = pattern.sub(link, piece)
    return "".join(pieces)


def on_post_build(config: Any) -> None:
    """Check that every link of the built site leads somewhere, anchors included.

    mkdocs checks the links of Markdown; those that the theme and this file write, it does not see.

    Raises:
        PluginError: Some do not.
    """
    site = Path(config.site_dir)
    pages = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    ids = {path: set(ID.findall(text)) for path, text in pages.items()}
    dead = [
        f"{path.relative_to(site)}: {link}"
        for path, text in pages.items()
        if path.name != "404.html"  # Its links are absolute, because it is served anywhere.
        for link in HREF.findall(text)
        if not leads_somewhere(path, html.unescape(link), ids)
    ]
    if dead:
        raise PluginError("dead links:\n" + "\n".join(dead))


def leads_somewhere(page: Path, link: str, ids: dict[Path, set[str]]) -> bool:
    """Return whether a link of a page leads to a file of the site, or out of it."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if target.is_dir():
        target /= "index.html"
    if not parts.fragment:
        return target.is_file()
    return unquote(parts.fragment) in ids.get(target, set())


@cache
def definitions(glossary: Path) -> dict[str, tuple[str, str]]:
    """Return each word in lower case with the name of its definition and its first sentence."""
    return {
        word.lower(): (found[1], found[2])
        for found in DEFINITION.finditer(glossary.read_text(encoding="utf-8"))
        for word in found[1].split(", ")
        if word.lower() not in EVERYDAY
    }


def anchor(name: str) -> str:
    """Return where a definition is found on the glossary's page."""
    return "term-" + re.sub(r"\W+", "-", name.lower()).strip("-")
