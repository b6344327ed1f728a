"""``log``, ``show`` and ``search`` over a server.

Turns arrive as their bytes, whose digests the client checks. So what is printed is made of the same
values as on the machine of the ledger, by the same functions.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import click

from turntree.cli.client.opened import OpenServer, on_server, session_of
from turntree.cli.command import Terminal
from turntree.cli.history.log import LogGraph, draw_list
from turntree.cli.history.search import typed
from turntree.cli.history.show import view_document
from turntree.cli.output.annotations import Annotations
from turntree.cli.output.log_line import plan_columns
from turntree.cli.output.parts import Level, draw_part, find_part, part_document
from turntree.cli.output.search import draw_result, hit_document
from turntree.cli.output.text import digits
from turntree.cli.output.turn import TurnView, draw_turn
from turntree.client.sealed import read_sealed
from turntree.core.errors import Unsupported
from turntree.core.ids import Label, SessionId, Timestamp, TurnId
from turntree.core.revision import parse_revision
from turntree.core.session import Session
from turntree.core.thread import newest_first
from turntree.core.usage import Usage
from turntree.ledger.revisions import parse_time
from turntree.search.query import parse_query
from turntree.search.rank import Snippet
from turntree.search.results import MEANS_THE_SAME, HitSession, SearchHit, SearchResult
from turntree.wire.sealed import SealedTurnDocument
from turntree.wire.search import SearchHitDocument

_REASON: Final = re.compile(r"(?P<said>.*) \((?P<where>[^()]*)\)", re.DOTALL)


def log(
    terminal: Terminal,
    *,
    revisions: tuple[str, ...],
    limit: int,
    since: str | None,
    level: str | None,
) -> None:
    """List the turns of threads."""
    if any(".." in revision for revision in revisions):
        raise Unsupported("a range of turns does not work over a server")

    async def act(opened: OpenServer) -> LogGraph:
        after = None if since is None else parse_time(since, opened.now)
        documents: dict[str, SealedTurnDocument] = {}
        for revision in revisions or ("HEAD",):
            name = opened.name(revision)
            page = await opened.client.threads.read_sealed(name, last=limit + 1)
            documents.update((one.id, one) for one in page)
        turns = newest_first(map(read_sealed, documents.values()))
        kept = [one for one in turns[:limit] if after is None or one.turn.header.sealed_at >= after]
        legend = await read_legend(opened, [documents[one.turn.id] for one in kept])
        return LogGraph(tuple(kept), legend, len(turns) > limit)

    picture = on_server(terminal, act)
    if terminal.as_json:
        terminal.documents(picture.legend.document(placed) for placed in picture.turns)
    elif not picture.turns:
        terminal.note("no turns match." if since else "there are no turns here yet.")
    else:
        columns = plan_columns(picture.turns, picture.legend, terminal, short=level == "short")
        terminal.page(draw_list(picture, columns, terminal))
        failed = [one.turn for one in picture.turns if one.turn.id in picture.legend.reasons]
        if failed:
            terminal.note(f"read how it failed with: turntree tail {digits(failed[0].digest)}")


async def read_legend(opened: OpenServer, documents: Sequence[SealedTurnDocument]) -> Annotations:
    """Return the annotations of turns, which came with them."""
    current = await opened.find_session(opened.current)
    return Annotations(
        now=opened.now,
        current=None if current is None else session_of(current),
        sessions=(),
        labels={TurnId(one.id): list(one.sessions) for one in documents if one.sessions},
        tags={TurnId(one.id): list(one.tags) for one in documents if one.tags},
        used={TurnId(one.id): used_by(one) for one in documents if one.usage is not None},
        unique={read_sealed(one).turn.digest: one.digits for one in documents},
        reasons={TurnId(one.id): one.reason for one in documents if one.reason is not None},
        askers={TurnId(one.id): one.asker for one in documents if one.asker is not None},
    )


def used_by(document: SealedTurnDocument) -> Usage:
    """Return the tokens of a turn."""
    use = document.usage
    if use is None:
        return Usage()
    return Usage(
        input=use.input, cached_input=use.cached, cache_write=use.cache_write, output=use.output,
        reasoning=use.reasoning,
    )  # fmt: skip


def show(terminal: Terminal, *, revision: str, level: Level | None) -> None:
    """Show a turn, or a part of it."""
    if level == "raw":
        body = on_server(
            terminal, lambda opened: opened.client.turns.get_sealed(opened.name(revision))
        ).turn.body
        terminal.say(body)
        return

    async def act(opened: OpenServer) -> TurnView:
        name = opened.name(revision)
        view = await opened.client.turns.get_sealed(name)
        near = [view.turn, *view.children, *([] if view.parent is None else [view.parent])]
        return TurnView(
            placed=read_sealed(view.turn),
            parent=None if view.parent is None else read_sealed(view.parent),
            children=tuple(map(read_sealed, view.children)),
            children_count=view.children_total,
            legend=await read_legend(opened, near),
            holding=tuple(_label_alone(label, opened.now) for label in view.held_by),
            holding_count=view.held_by_total,
            thread_used=Usage(input=view.thread_tokens),
            calls=view.calls,
            spawned=view.spawned,
            part=parse_revision(name).part,
        )

    shown = on_server(terminal, act)
    if shown.part is not None:
        part = find_part(shown.placed.turn, shown.part)
        if terminal.as_json:
            terminal.document(part_document(part))
        else:
            terminal.page(draw_part(part))
    elif terminal.as_json:
        document = view_document(shown)
        # The files of a turn are on the machine of the ledger.
        terminal.document({k: v for k, v in document.items() if k not in ("pins", "late_ms")})
    else:
        terminal.page(draw_turn(shown, level or "normal", terminal))


def search(terminal: Terminal, *, words: tuple[str, ...], limit: int) -> None:
    """Find turns by their words."""
    if not words:
        raise click.UsageError("say what to find")
    query = typed(words)

    async def act(
        opened: OpenServer,
    ) -> tuple[SearchResult, list[SealedTurnDocument], OpenServer]:
        page = await opened.client.search(query, limit=limit)
        documents = [*await opened.client.turns.list_sealed([one.turn for one in page.hits])]
        turns = {one.id: one for one in documents}
        hits = tuple(_hit(one, turns[one.turn]) for one in page.hits if one.turn in turns)
        result = SearchResult(parse_query(query, opened.now), hits, by_meaning=False)
        return result, documents, opened

    result, documents, opened = on_server(terminal, act)
    turns = {one.id: read_sealed(one).turn for one in documents}
    unique = {turns[one.id].digest: one.digits for one in documents}
    if terminal.as_json:
        terminal.documents(hit_document(hit, unique) for hit in result.hits)
    elif result.hits:
        askers = {TurnId(one.id): one.asker for one in documents if one.asker is not None}
        terminal.page(draw_result(result, unique, opened.current, opened.now, terminal, askers))
        best = result.hits[0].placed.turn.digest
        short = best.removeprefix("sha256:")[: max(8, unique[best])]
        terminal.note(f"next: turntree show {short}     turntree fork {short} LABEL")
    else:
        terminal.note(f"nothing was found for {query}")
        terminal.note("fewer words find more")
    click.get_current_context().exit(0 if result.hits else 1)


def _hit(found: SearchHitDocument, document: SealedTurnDocument) -> SearchHit:
    matched: dict[str, tuple[Any, ...]] = {}
    for reason in found.why.split(" · "):
        if (parts := _REASON.fullmatch(reason)) is not None:
            matched[parts["said"]] = tuple(parts["where"].split(", "))
    snippet = None
    if found.where is not None:
        where: Any = found.where
        snippet = Snippet(where, 0, found.snippet, tuple(_marks(found.snippet, found.marks)))
    heads = set(document.sessions)
    holders = tuple(HitSession(SessionId(""), one, one in heads) for one in found.sessions)
    is_similar = MEANS_THE_SAME in found.why.split(" · ")
    return SearchHit(read_sealed(document), matched, is_similar, snippet, holders)


def _marks(text: str, marks: Iterable[tuple[int, int]]) -> Iterable[tuple[int, int]]:
    """Yield marks by characters: the server counts as browsers do, some characters twice."""
    units = text.encode("utf-16-le")
    for start, end in marks:
        first, last = (len(units[: 2 * at].decode("utf-16-le", "ignore")) for at in (start, end))
        yield first, last


def _label_alone(label: str, now: Timestamp) -> Session:
    """Return a session of which only the label is printed."""
    return Session(SessionId(""), Label(label), None, None, 0, "active", now, now)
