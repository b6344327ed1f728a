"""Finding it: turns by words, by meaning, by names and times, and by the files they touched."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from turntree.api import Tree
from turntree.boot.open import Settings, tree_on
from turntree.core.canonical import Json
from turntree.core.errors import Hint, InvalidOperation, InvalidQuery
from turntree.core.message import Message, ToolResult, ToolUse, assistant, tool, user
from turntree.core.message_context import TouchedFile
from turntree.core.principal import Principal
from turntree.core.session import Origin
from turntree.core.turn import SealedTurn
from turntree.core.value import value
from turntree.db.database import Database
from turntree.search.document import SearchPassage, document_of
from turntree.search.embedder import TextKind
from turntree.search.query import Query
from turntree.search.rank import Judge
from turntree.search.results import SearchResult, Vector
from turntree.search.store import SearchStore, WordMatches
from turntree.testing.contracts.ledger import a_turn
from turntree.testing.fakes import FakeClock
from turntree.testing.hashing_embedder import HashingEmbedder
from turntree.transcripts.bulk_copy import import_turns
from turntree.transcripts.incoming import ImportedTurn

pytestmark = pytest.mark.anyio

SYNONYMS = {"automobil": "car", "vehicl": "car"}


@pytest.fixture
def tree(database: Database, world: FakeClock, place: Path) -> Tree:
    """The product with an embedder that knows a few synonyms."""
    settings = Settings(place, user="ana", session="main")
    return tree_on(database, settings, world, embedder=HashingEmbedder(synonyms=SYNONYMS))


def titles(result: SearchResult) -> list[str]:
    return [hit.placed.turn.title for hit in result.hits]


async def record(tree: Tree, said: str, answer: str = "done", session: str = "main") -> None:
    await tree.turns.record(session, [user(said)], [assistant(answer)])


async def found(tree: Tree, query: str) -> list[str]:
    return titles(await tree.search(query))


async def test_search_finds_turn_by_part_of_sentence(tree: Tree) -> None:
    await record(tree, "why does login drop the query string?", "redirect() rebuilds the address")
    await record(tree, "bake bread")
    for query in ("login loses query string", "redirecting", "redirec", "QUERY", '"drop the query"',
                  "rebuild addresses zebra", "login -bread"):  # fmt: skip
        assert await found(tree, query) == ["why does login drop the query string?"], query
    assert await found(tree, '"query drop"') == []
    assert await found(tree, "login -string") == []


async def test_names_of_code_paths_and_errors_are_found(tree: Tree) -> None:
    use = ToolUse("c", "Bash", {"command": "pytest tests/store/test_sql.py -k parseRevision"})
    failed = ToolResult("c", "error", "psycopg.errors.UniqueViolation: duplicate key turns_pkey")
    reply = [assistant(use), tool(failed), assistant("a key is taken")]
    await tree.turns.record("main", [user("run it")], reply)
    await record(tree, "something else")
    for query in ("test_sql.py", "parse_revision", "UniqueViolation", "duplicate key", "turnsPkey"):
        assert await found(tree, query) == ["run it"], query


async def test_hit_has_reasons_and_snippet(tree: Tree) -> None:
    await record(tree, "the login page", "it redirects")
    (hit,) = (await tree.search("login redirect")).hits
    assert hit.matched == {"login": ("asked",), "redirect": ("answered",)}
    assert not hit.means_the_same
    assert hit.snippet is not None
    start, end = hit.snippet.marks[0]
    assert hit.snippet.text[start:end] in ("login", "redirects")


async def test_better_matches_come_first(tree: Tree) -> None:
    await record(tree, "login", "nothing of it")
    await record(tree, "login redirect query", "yes")
    await record(tree, "redirect", "no")
    assert (await found(tree, "login redirect query"))[0] == "login redirect query"


async def test_one_shared_word_is_enough_where_no_turn_shares_more(tree: Tree) -> None:
    await record(tree, "where do we keep a basket?", "carts live in Redis")
    await record(tree, "the pictures", "they stay")
    asked = "which storage was chosen for shopping carts"
    assert await found(tree, asked) == ["where do we keep a basket?"]
    assert len((await tree.search.places(asked)).hits) == 1
    await record(tree, "shopping", "we have chosen the storage")
    assert await found(tree, asked) == ["shopping"]
    assert await found(tree, f'{asked} "they stay"') == []


async def test_equal_matches_are_ordered_newest_first(tree: Tree) -> None:
    words = ["amber", "birch", "cedar", "delta", "ebony", "flint", "grove"]
    for number in range(40):
        await record(tree, f"{number} {' '.join(words)}")
        # Each word is rare in another way, so that the scores are sums of different numbers.
        await record(tree, " ".join(words[: number % len(words)]) or "nothing")
    expected = [f"{number} {' '.join(words)}" for number in reversed(range(20, 40))]
    for query in (" ".join(words), " ".join(reversed(words)), " ".join(words[3:] + words[:3])):
        assert await found(tree, query) == expected


async def test_similarity_finds_turn_without_shared_words(tree: Tree) -> None:
    await record(tree, "the car broke down")
    await record(tree, "bake some bread")
    assert await found(tree, "automobile") == []
    done = await tree.search.fill_meanings()
    assert (done.turns, done.is_behind) == (2, False)
    result = await tree.search("automobile")
    assert titles(result) == ["the car broke down"]
    assert result.by_meaning
    assert result.hits[0].means_the_same
    assert result.hits[0].matched == {}
    both = (await tree.search("car")).hits[0]
    assert both.means_the_same
    assert both.matched == {"car": ("asked",)}
    assert titles(await tree.search("automobile", semantic=False)) == []


@value
class Meeting:
    """Two who wait for each other: neither goes on before the other has come."""

    places: dict[str, anyio.Event]

    async def wait(self, me: str) -> None:
        self.places[me].set()
        with anyio.fail_after(10):
            for event in self.places.values():
                await event.wait()


@value
class MeetingEmbedder(HashingEmbedder):
    """Reads a question only while words are looked for."""

    meeting: Meeting | None = None

    async def embed(self, texts: Sequence[str], kind: TextKind) -> list[Vector]:
        if kind == "query" and self.meeting is not None:
            await self.meeting.wait("question")
        return await HashingEmbedder.embed(self, texts, kind)


@value
class MeetingReader(SearchStore):
    """Looks for words only while the question is read."""

    meeting: Meeting | None = None

    async def list_by_words(self, query: Query, *, limit: int) -> WordMatches:
        if self.meeting is not None:
            await self.meeting.wait("words")
        return await SearchStore.list_by_words(self, query, limit=limit)


async def test_query_is_embedded_during_text_search(tree: Tree, database: Database) -> None:
    await record(tree, "repair the car")
    await tree.search.fill_meanings()
    alone = await tree.search("automobile repair")
    meeting = Meeting({"question": anyio.Event(), "words": anyio.Event()})
    together = replace(
        tree.search,
        reader=MeetingReader(database, meeting),
        embedder=MeetingEmbedder(synonyms=SYNONYMS, meeting=meeting),
    )
    assert await together("automobile repair") == alone


@value
class MuteEmbedder(HashingEmbedder):
    """Has no weights any more."""

    async def embed(self, texts: Sequence[str], kind: TextKind) -> list[Vector]:
        del texts, kind
        raise InvalidOperation("the weights are missing")


async def test_embedder_error_contains_reason(tree: Tree) -> None:
    await record(tree, "repair the car")
    await tree.search.fill_meanings()
    with pytest.raises(InvalidOperation, match="the weights are missing"):
        await replace(tree.search, embedder=MuteEmbedder())("automobile")


async def test_similarity_without_embeddings_is_refused(tree: Tree, database: Database) -> None:
    await record(tree, "hello")
    with pytest.raises(InvalidOperation, match="no embeddings are indexed") as refused:
        await tree.search("hello", semantic=True)
    assert refused.value.hint == Hint("index.embed")
    without = replace(tree.search, embedder=None)
    with pytest.raises(InvalidOperation, match=r"turntree\[semantic\]"):
        await without("hello", semantic=True)
    with pytest.raises(InvalidOperation, match=r"turntree\[semantic\]"):
        await without.fill_meanings()


async def test_search_operators_filter(tree: Tree, world: FakeClock) -> None:
    files: dict[str, Json] = {"files": [TouchedFile("written", "src/store/sql.py", 3, 9).to_json()]}
    use = [assistant(ToolUse("c", "Bash", {})), tool(ToolResult("c", "timeout", ""))]
    one = [replace(user("login one"), context=files)]
    first = await tree.turns.record(
        "fix-a", one, [*use, assistant("ok")], model="claude-opus-4", by=Principal("human", "Bob")
    )
    between = world.now()
    await record(tree, "login two", session="fix-b")
    await tree.sessions.create("imported", origin=Origin("codex", "x"))
    await record(tree, "login three", session="imported")
    for query, wanted in {
        "in:fix-*": ["login two", "login one"],
        "login in:fix-a": ["login one"],
        "by:bob": ["login one"],
        "-by:bob": ["login three", "login two"],
        "model:OPUS": ["login one"],
        "tool:bash": ["login one"],
        "tool:ba*": ["login one"],
        "tool:grep": [],
        "file:sql.py": ["login one"],
        "file:src/*.py": ["login one"],
        "file:ql.py": [],
        "origin:codex": ["login three"],
        f"before:{between}": ["login one"],
        f"login after:{between} in:fix-*": ["login two"],
        "failed:": ["login one"],
        "failed:no in:fix-*": ["login two"],
        "in:nowhere": [],
    }.items():
        assert await found(tree, query) == wanted, query
    # What a session held before it forked, it holds.
    await tree.sessions.fork(first.turn.id, "forked")
    await record(tree, "login four", session="forked")
    assert sorted(await found(tree, "in:forked")) == ["login four", "login one"]


async def test_search_operators_filter_similarity(tree: Tree) -> None:
    await record(tree, "the car broke down", session="a")
    await record(tree, "a car that drives", session="b")
    await tree.search.fill_meanings()
    assert await found(tree, "vehicle in:b") == ["a car that drives"]
    assert await found(tree, "vehicle by:nobody") == []


async def test_search_hit_lists_all_sessions_with_turn(tree: Tree) -> None:
    await record(tree, "zebras")
    await tree.sessions.fork("main", "side")
    await record(tree, "go on")
    (hit,) = (await tree.search("zebras")).hits
    assert [(holder.label, holder.is_head) for holder in hit.holders] == [
        ("side", True), ("main", False),
    ]  # fmt: skip


async def test_a_search_sees_what_was_just_recorded(tree: Tree) -> None:
    for number in range(3):
        await record(tree, f"zebra{number}")
        assert await found(tree, f"zebra{number}") == [f"zebra{number}"]


async def test_interrupted_indexing_continues(tree: Tree) -> None:
    for number in range(5):
        await record(tree, f"zebra number{number}")
    batch = await tree.search.writer.next_batch("words", limit=2)
    assert [one.placed.turn.title for one in batch.turns] == ["zebra number4", "zebra number3"]
    assert not batch.is_last
    assert (await tree.search.fill()).turns == 5
    assert (await tree.search.fill()).turns == 0
    await tree.search.forget()
    assert (await tree.search.fill(everything=True)).turns == 5
    assert len(await found(tree, "zebra")) == 5


async def test_indexing_pass_continues_below_its_last_batch_and_misses_no_new_turn(
    tree: Tree,
) -> None:
    for number in range(5):
        await record(tree, f"zebra number{number}")
    writer = tree.search.writer
    batch = None
    titles: list[str] = []
    while batch is None or not batch.is_last:
        batch = await writer.next_batch("words", limit=2, after=batch)
        titles += [one.placed.turn.title for one in batch.turns]
        await writer.put_documents(
            batch, [(one.placed.turn.id, document_of(one.placed.turn)) for one in batch.turns]
        )
        if len(titles) == 2:
            await record(tree, "a late zebra")
    assert titles == [f"zebra number{number}" for number in (4, 3, 2, 1, 0)]
    assert await found(tree, "late") == ["a late zebra"]


async def test_search_does_not_find_erased_text(tree: Tree) -> None:
    await record(tree, "the secret zebra", "a giraffe")
    await tree.search.fill_meanings()
    assert len(await found(tree, "zebra")) == 1
    await tree.turns.erase("main", 0, reason="asked")
    assert await found(tree, "zebra") == []
    assert len(await found(tree, "giraffe")) == 1


async def test_text_read_before_erasure_is_not_indexed_after(tree: Tree) -> None:
    await record(tree, "the secret zebra", "a giraffe")
    writer = tree.search.writer
    batch = await writer.next_batch("words", limit=10)
    await tree.turns.erase("main", 0, reason="asked")
    await tree.search.fill()
    await tree.turns.erase("main", 1, reason="asked")
    await writer.put_documents(
        batch, [(one.placed.turn.id, document_of(one.placed.turn)) for one in batch.turns]
    )
    assert await found(tree, "zebra") == []
    assert await found(tree, "giraffe") == []


async def test_search_empty_query_is_refused(tree: Tree) -> None:
    with pytest.raises(InvalidQuery, match="only stop words"):
        await tree.search("what is the")
    with pytest.raises(InvalidQuery, match="the operators are"):
        await tree.search("who:ana")


async def test_a_large_message_is_found_by_its_beginning(tree: Tree) -> None:
    await record(tree, "zebras\n" + "x " * 10_000)
    (hit,) = (await tree.search("zebra")).hits
    assert hit.matched == {"zebra": ("asked",)}


@pytest.mark.parametrize("lines", [200, 4_000], ids=["within the turn", "as an object"])
async def test_words_in_the_middle_of_a_tool_result_are_found(tree: Tree, lines: int) -> None:
    log = [f"line {n}: nothing to see" for n in range(lines)]
    log[lines // 2] = "the staging database listens on port 6543"
    call = ToolUse("c", "bash", {"command": "cat log"})
    result = ToolResult("c", "ok", "\n".join(log))
    await tree.turns.record(
        "main", [user("read the log")], [assistant(call), tool(result), assistant("done")]
    )
    await record(tree, "bake bread")
    for query in ("which port does the staging database use", '"listens on port"', "6543"):
        (hit,) = (await tree.search(query, semantic=False)).hits
        assert hit.placed.turn.title == "read the log"
        assert hit.snippet is not None
        assert hit.snippet.where == "output"
        assert "port 6543" in hit.snippet.text
    assert await found(tree, '"listens at port"') == []
    assert await found(tree, "staging -6543") == []


async def test_search_finds_the_turn_and_not_those_that_asked_for_it(tree: Tree) -> None:
    await record(tree, "where is the pump?", "behind the irrigation valve")
    call = ToolUse("c", "mcp__turntree__search", {"query": "where is it"})
    result = ToolResult("c", "ok", "behind the irrigation valve")
    await tree.turns.record(
        "main", [user("ask the past")], [assistant(call), tool(result), assistant("done")]
    )
    assert await found(tree, "irrigation valve") == ["where is the pump?"]


async def test_blame_lists_turns_that_used_file(tree: Tree) -> None:
    def touching(said: str, *files: TouchedFile) -> list[Message]:
        context: dict[str, Json] = {"files": [file.to_json() for file in files]}
        return [replace(user(said), context=context)]

    read = TouchedFile("read", "src/store/sql.py", 1, 20)
    written = TouchedFile("written", "src/store/sql.py", 3, 9)
    await tree.turns.record("main", touching("look", read), [assistant("ok")])
    await tree.turns.record("main", touching("change", read, written), [assistant("ok")])
    await record(tree, "other")
    for path in ("src/store/sql.py", "./sql.py", "store/sql.py", "src/*.py", "s?l.py"):
        blamed = await tree.search.blame(path)
        assert [one.placed.turn.title for one in blamed] == ["change", "look"], path
    newest = (await tree.search.blame("sql.py"))[0]
    assert [(t.use, t.line_start, t.line_end) for t in newest.touches] == [
        ("read", 1, 20), ("written", 3, 9),
    ]  # fmt: skip
    assert newest.sessions == ("main",)
    assert await tree.search.blame("ql.py") == []
    with pytest.raises(InvalidQuery):
        await tree.search.blame(" ")


async def test_turns_that_came_in_bulk_are_found_too(tree: Tree, database: Database) -> None:
    await record(tree, "giraffe")
    assert await found(tree, "giraffe") == ["giraffe"]
    parent: SealedTurn | None = None
    brought: list[ImportedTurn] = []
    for number in range(4):
        above = None if parent is None else parent.turn.id
        parent = a_turn(number, parent, f"zebra {number}")
        brought.append(ImportedTurn(parent, above))
    assert parent is not None
    await import_turns(database, brought)
    await tree.sessions.fork(parent.turn.id, "brought")
    assert len(await found(tree, "zebra")) == 4


async def test_search_lets_other_work_go_on_between_two_turns(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        await record(tree, f"sieve number {number}")
    rounds, judged_in = 0, list[int]()
    judge = Judge.judge

    def noted(self: Judge, passages: Sequence[SearchPassage], snippet_chars: int = 80) -> object:
        judged_in.append(rounds)
        return judge(self, passages, snippet_chars)

    monkeypatch.setattr(Judge, "judge", noted)

    async def count_rounds() -> None:
        nonlocal rounds
        while True:
            rounds += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(count_rounds)
        result = await tree.search("sieve", limit=12)
        group.cancel_scope.cancel()
    assert len(result.hits) == 12
    assert sorted(set(judged_in)) == judged_in
