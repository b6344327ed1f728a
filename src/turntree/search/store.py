"""Search turns in PostgreSQL: a query becomes a ``tsquery`` and SQL filters.

A ``tsquery`` is a value with its own grammar, built here from quoted lexemes; SQL stays in its
files.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from anyio.lowlevel import checkpoint

from turntree.core import turn as turns_
from turntree.core.canonical import digest_from_raw, digest_raw
from turntree.core.ids import Digest, SessionId, TurnId
from turntree.core.message import ObjectRef
from turntree.core.thread import ThreadTurn
from turntree.core.turn import Turn
from turntree.core.value import value
from turntree.db.database import Database, as_uuids
from turntree.db.sql import load_statements
from turntree.search.document import LIFTED_BYTES_READ, facet, mark_of
from turntree.search.query import Query, Term
from turntree.search.results import FileUseRecord, HitSession, SearchableTurn, Vector
from turntree.search.tokenizer import lexemes_of, roots_begun

SQL = load_statements(__file__)

CANDIDATES_MAX: Final = 2_000
"""How many of the newest matches are ranked."""
EXACT_MAX: Final = 20_000
"""Up to this many vectors are compared exactly, without the index."""
PROPOSED: Final = 200
HOLDERS_MAX: Final = 20
LOOSENED_MAX: Final = 6
SHORT_MAX: Final = 3


@value
class WordMatches:
    """Turns with the words of a query, best first."""

    turns: list[TurnId]
    rarity: Mapping[str, float]
    """How rare each word is in the turns that were compared; 0 if none of them has it."""


@value
class SearchStore:
    """Proposes turns. It may propose too many; the caller reads and ranks them."""

    database: Database

    async def list_by_words(self, query: Query, *, limit: int) -> WordMatches:
        """Return turns that contain the words of a query, best first.

        If none contains enough of them, any one word is enough: what is asked in other words may
        share no more than the name of its subject.
        """
        terms = [_anywhere(term) for term in query.terms]
        terms_min = max(1, (len(terms) + 1) // 2)
        matches = await self._match(query, ladder(terms), terms_min, limit)
        if matches.turns or terms_min == 1:
            return matches
        return await self._match(query, [any_of(terms)], 1, limit)

    async def _match(
        self, query: Query, steps: Sequence[str], terms_min: int, limit: int
    ) -> WordMatches:
        needed, phrases = required(query), _phrase_words(query)
        rows = await self.database.fetch(
            SQL["search_words"],
            ladder=[conjoin([*needed, step]) for step in steps],
            terms=[*map(_anywhere, query.terms), *phrases],
            terms_min=(terms_min if query.terms else 0) + len(phrases),
            candidates=CANDIDATES_MAX,
            limit=limit,
            filtered=is_filtered(query),
            **filters(query),
        )
        # The same in each row, and the words of phrases come last.
        rarities: Sequence[float | None] = rows[0][1] if rows else ()
        return WordMatches(
            [TurnId(id) for id, _ in rows],
            {term.text: rarity or 0.0 for term, rarity in zip(query.terms, rarities, strict=False)},
        )

    async def list_places(self, query: Query, *, limit: int) -> list[tuple[int, int]]:
        """Return the segments and depths of all turns that a query finds, newest first."""
        if not query.has_words:
            turns = await self.list_by_names(query, limit=limit)
            rows = await self.database.fetch(SQL["turn_places"], turns=as_uuids(turns))
        else:
            terms = [_anywhere(term) for term in query.terms]
            steps = [*ladder(terms), any_of(terms)]
            rows = await self.database.fetch(
                SQL["search_places"],
                ladder=[conjoin([*required(query), step]) for step in steps],
                filtered=is_filtered(query),
                limit=limit,
                **filters(query),
            )
        return [(segment, depth) for segment, depth in rows]

    async def list_by_names(self, query: Query, *, limit: int) -> list[TurnId]:
        """Return turns by the operators of a query alone, newest first."""
        rows = await self.database.fetch(
            SQL["search_names"],
            facets=conjoin(facets(query)) or None,
            limit=limit,
            **filters(query),
        )
        return [TurnId(id) for (id,) in rows]

    async def list_by_meaning(
        self, query: Query, embedder: str, vector: Vector, *, limit: int
    ) -> list[tuple[TurnId, float]]:
        """Return turns near a vector, nearest first, with their similarity, up to 1."""
        rows = await self.database.fetch(
            SQL["search_embeddings"],
            embedder=embedder,
            vector="{" + ",".join(map(str, vector)) + "}",
            facets=conjoin(facets(query)) or None,
            filtered=is_filtered(query),
            exact_max=EXACT_MAX,
            proposed=max(PROPOSED, limit),
            limit=limit,
            **filters(query),
        )
        return [(TurnId(id), likeness) for id, likeness in rows]

    async def read(self, turns: Sequence[TurnId]) -> list[SearchableTurn]:
        """Return some turns, in their order, with the beginnings of their large parts."""
        rows = await self.database.fetch(SQL["search_bodies"], turns=as_uuids(turns))
        turns_read: list[ThreadTurn] = []
        for digest, header, message_lines, depth, parent, _ in rows:
            # Parsing a long turn takes milliseconds, in which a server could do nothing else.
            await checkpoint()
            read = turns_.read_lines(header, message_lines, digest_from_raw(bytes(digest)))
            turns_read.append(ThreadTurn(read, depth, parent))
        needed = {entry.turn.id: list(_lifted(entry.turn)) for entry in turns_read}
        starts = await self._beginnings([digest for each in needed.values() for digest in each])
        return [
            SearchableTurn(entry, {d: starts[d] for d in needed[entry.turn.id] if d in starts})
            for entry in turns_read
        ]

    async def _beginnings(self, digests: Sequence[Digest]) -> dict[Digest, bytes]:
        if not digests:
            return {}
        raw = [digest_raw(digest) for digest in dict.fromkeys(digests)]
        rows = await self.database.fetch(
            SQL["search_object_parts"], digests=raw, bytes=LIFTED_BYTES_READ
        )
        return {digest_from_raw(bytes(digest)): bytes(data) for digest, data in rows}

    async def list_holders(self, turns: Sequence[TurnId]) -> dict[TurnId, list[HitSession]]:
        """Return the sessions that ever contained each turn, those with it as their head first."""
        rows = await self.database.fetch(
            SQL["search_holders"], turns=as_uuids(turns), limit=HOLDERS_MAX
        )
        holders: dict[TurnId, list[HitSession]] = {turn: [] for turn in turns}
        for turn, session, label, is_head in rows:
            holders[TurnId(turn)].append(HitSession(SessionId(session), label, bool(is_head)))
        return holders

    async def list_touches(self, path: str, *, limit: int) -> list[FileUseRecord]:
        """Return the uses of a file, newest turn first, by its path, its end, or a pattern."""
        rows = await self.database.fetch(SQL["list_file_uses"], path=pattern(path), limit=limit)
        return [FileUseRecord(TurnId(turn), *rest) for turn, *rest in rows]

    async def sees_everything(self) -> bool:
        """Return whether no turn is hidden from this viewer."""
        ((sees,),) = await self.database.fetch(SQL["viewer_sees_everything"])
        return bool(sees)


def _lifted(turn: Turn) -> Iterator[Digest]:
    for message in turn.messages:
        yield from (part.object for part in message.parts if isinstance(part, ObjectRef))


def quoted(lexeme: str) -> str:
    """Return a lexeme quoted for a tsquery, whatever characters it has."""
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"


def conjoin(parts: Iterable[str]) -> str:
    """Return a tsquery that requires all of its parts."""
    return " & ".join(part for part in parts if part)


def term_query(term: Term) -> str:
    """Return the tsquery of a word: all of it, all its pieces, or its completions."""
    ways = [quoted(term.whole)]
    if term.pieces:
        ways.append(f"({conjoin(map(quoted, term.pieces))})")
    if term.is_open:
        letters = "".join(character for character in term.text.lower() if character.isalnum())
        ways.append(f"{quoted(letters)}:*")
        ways += [quoted(lexeme) for lexeme in sorted(roots_begun(letters))]
    return f"({' | '.join(dict.fromkeys(ways))})"


def _anywhere(term: Term) -> str:
    """Return the tsquery of a word, in the middle of tool results too."""
    marks = [quoted(mark_of(term.whole))]
    if term.pieces:
        marks.append(f"({conjoin(quoted(mark_of(piece)) for piece in term.pieces)})")
    return f"({term_query(term)} | {' | '.join(marks)})"


def ladder(terms: Sequence[str]) -> list[str]:
    """Return queries for some words from the strictest to the loosest.

    All of them; all but one; any two or three of them, because one word of a long sentence says
    little: half the tree would be a candidate. Only the longest words, which are the rarest, are
    combined: each combination costs time.
    """
    steps = [conjoin(terms)]
    kept = sorted(terms, key=len, reverse=True)[:LOOSENED_MAX]
    if len(kept) == LOOSENED_MAX:
        steps.append(_combined(kept, LOOSENED_MAX - 1))
    if len(kept) > 1:
        steps.append(_combined(kept, (len(kept) + 1) // 2 if len(kept) > SHORT_MAX else 1))
    return steps


def any_of(terms: Sequence[str]) -> str:
    """Return the query for any one of some words; without words it asks for nothing."""
    return _combined(terms, 1) if terms else ""


def _combined(terms: Sequence[str], size: int) -> str:
    """Return the query for any so many of some words.

    Either the first word and one fewer of the rest, or as many of the rest: that is half as long as
    all combinations, and the index evaluates it for each turn with one of the words.
    """
    if size in (1, len(terms)):
        return f"({(' | ' if size == 1 else ' & ').join(terms)})"
    first, *rest = terms
    return f"({first} & {_combined(rest, size - 1)} | {_combined(rest, size)})"


def required(query: Query) -> list[str]:
    """Return the required conditions: facets, phrases and excluded words."""
    single = [text for text in query.without if len(text.split()) == 1]
    absent = [f"!{quoted(lexeme)}" for text in single for lexeme in list(lexemes_of(text))[:1]]
    return [*facets(query), *_phrase_words(query), *absent]


def _phrase_words(query: Query) -> list[str]:
    return [
        f"({quoted(lexeme)} | {quoted(mark_of(lexeme))})"
        for phrase in query.phrases
        for lexeme in lexemes_of(phrase)
    ]


def facets(query: Query) -> list[str]:
    """Return the conditions of operators that are stored as facets."""
    people = [_named("by", value) for value in query.names.get("by", ())]
    conditions = [f"({' | '.join(people)})"] if people else []
    conditions += [_named("tool", value) for value in query.names.get("tool", ())]
    for name, values in query.without_names.items():
        conditions += [f"!{_named(name, value)}" for value in values]
    if query.failed is not None:
        conditions.append(("" if query.failed else "!") + quoted(facet("failed")))
    return conditions


def _named(name: str, value: str) -> str:
    open_end = value.endswith("*")
    return quoted(facet(name, value.rstrip("*"))) + (":*" if open_end else "")


def is_filtered(query: Query) -> bool:
    """Return whether a query has conditions besides words and facets."""
    times = query.after is not None or query.before is not None
    return times or any(name in query.names for name in ("in", "origin", "model", "file"))


def filters(query: Query) -> dict[str, Any]:
    """Return the parameters of all conditions that are not lexemes."""
    names = query.names
    models = [m if "*" in m or "?" in m else f"*{m}*" for m in names.get("model", ())]
    return {
        "sessions": _patterns(names.get("in", ())),
        "origins": _patterns(origin.lower() for origin in names.get("origin", ())),
        "models": _patterns(model.lower() for model in models),
        "files": _patterns(path.removeprefix("./") for path in names.get("file", ())),
        "after": query.after,
        "before": query.before,
        "archived": query.archived,
    }


def _patterns(values: Iterable[str]) -> list[str] | None:
    return [pattern(value) for value in values] or None


def pattern(glob: str) -> str:
    """Return a glob as a LIKE pattern."""
    for character in ("\\", "%", "_"):
        glob = glob.replace(character, "\\" + character)
    return glob.replace("*", "%").replace("?", "_")
