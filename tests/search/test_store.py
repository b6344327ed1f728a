"""Search behind the walls: its indexes are used, and no other workspace is ever seen."""

from collections.abc import Generator
from itertools import product
from pathlib import Path
from typing import Any

import psycopg
import pytest

from turntree.api import Tree
from turntree.boot.open import Settings, tree_on
from turntree.core.message import assistant, user
from turntree.core.viewer import EVERYTHING
from turntree.db.database import Database, open_database, prepare_database
from turntree.search.document import LEXEMES_MAX, MARKS_MAX, RECIPE
from turntree.search.store import ladder, quoted
from turntree.testing.fakes import FakeClock
from turntree.testing.hashing_embedder import HashingEmbedder

TAKE_PLACE = """
SELECT set_config('turntree.workspace', %s, false),
  set_config('turntree.viewer', 'human:ana', false)
"""
pytestmark = pytest.mark.anyio

Connection = psycopg.Connection[tuple[Any, ...]]
TURNS = 20_000
DEFINERS = {"bind_console", "console_viewer", "console_workspace", "search_places",
    "search_words", "route_words", "search_names", "search_embeddings", "nearest_nodes",
    "unindex_turn", "reader_can_see", "reader_can_see_all", "reader_can_see_segment",
    "reader_can_see_turn", "reader_can_see_object", "permissions_of", "notice_preferences",
}  # fmt: skip
FIND = (
    "SELECT turn_id FROM turntree.search_documents"
    " WHERE workspace_id = %s AND lexemes @@ %s::tsquery"
)


@pytest.fixture
def owner(conninfo: str) -> Generator[Connection, None, None]:
    with psycopg.connect(conninfo, autocommit=True) as connection:
        yield connection


@pytest.fixture
def many(owner: Connection, database: Database) -> Connection:
    """An index of 20,000 turns, written by its owner because no turn is needed for it."""
    owner.execute(
        "INSERT INTO turntree.search_documents SELECT %s, gen_random_uuid(), 1,"
        " array_to_tsvector(ARRAY(SELECT 'w' || (i * k) %% 4999 FROM generate_series(1, 60) k))"
        " FROM generate_series(1, %s) i",
        (database.workspace, TURNS),
    )
    owner.execute("ANALYZE turntree.search_documents")
    return owner


def plan(connection: Connection, role: str, database: Database) -> str:
    connection.execute("SELECT set_config('role', %s, false)", (role,))
    connection.execute(TAKE_PLACE, (str(database.workspace),))
    rows = connection.execute(f"EXPLAIN {FIND}", (database.workspace, "'w17' & 'w34'")).fetchall()
    return "\n".join(line for (line,) in rows)


@pytest.mark.slow
async def test_text_index_is_used_by_searcher_role(many: Connection, database: Database) -> None:
    assert "search_documents_lexemes" in plan(many, "turntree_searcher", database)


@pytest.mark.slow
async def test_row_security_policy_alone_disables_text_index(
    many: Connection, database: Database
) -> None:
    # The day this fails, the searcher's role and its functions are not needed any more.
    assert "search_documents_lexemes" not in plan(many, "turntree_app", database)


@pytest.mark.slow
async def test_search_function_uses_the_index(many: Connection, database: Database) -> None:
    before = _entries_read(many)
    many.execute("SET ROLE turntree_app")
    many.execute(TAKE_PLACE, (str(database.workspace),))
    found = many.execute(
        "SELECT * FROM turntree.search_words(ARRAY[%(q)s::tsquery], ARRAY[%(q)s::tsquery], 1,"
        " false, NULL, NULL, NULL, NULL, NULL, NULL, false, 100, 20)",
        {"q": "'w17' & 'w34'"},
    ).fetchall()
    many.execute("RESET ROLE")
    assert len(found) == 20
    after = _entries_read(many)
    assert after["search_documents_lexemes"] > before["search_documents_lexemes"]
    # By their keys it reads the candidates, and some of the others to count them.
    assert after["search_documents_pkey"] - before["search_documents_pkey"] < TURNS / 10


@pytest.mark.slow
async def test_search_for_some_of_many_words_does_not_read_each_document(
    many: Connection, database: Database
) -> None:
    many.execute("ANALYZE turntree.search_documents")
    # So many beginnings of words that the planner, left to itself, would read each document.
    terms = [
        "(" + " | ".join(f"'{letter}{n}':*" for letter in "wabcdefgh") + ")"
        for n in (17, 340, 51, 680, 85, 102)
    ]
    before = _entries_read(many)
    many.execute("SET ROLE turntree_app")
    many.execute(TAKE_PLACE, (str(database.workspace),))
    asked = {"q": ladder(terms), "t": terms}
    many.execute(
        "SELECT * FROM turntree.search_words(%(q)s::text[]::tsquery[], %(t)s::text[]::tsquery[], 3,"
        " false, NULL, NULL, NULL, NULL, NULL, NULL, false, 100, 20)",
        asked,
    )
    many.execute(
        "SELECT * FROM turntree.search_places(%(q)s::text[]::tsquery[],"
        " false, NULL, NULL, NULL, NULL, NULL, NULL, false, 100)",
        asked,
    )
    many.execute("RESET ROLE")
    after = _entries_read(many)
    assert after["search_documents_pkey"] - before["search_documents_pkey"] < TURNS / 5


def _entries_read(owner: Connection) -> dict[str, int]:
    owner.execute("SELECT pg_stat_force_next_flush()")
    owner.execute("SELECT pg_stat_clear_snapshot()")
    return dict(
        owner.execute(
            "SELECT indexrelname, idx_tup_read FROM pg_stat_user_indexes"
            " WHERE relname = 'search_documents'"
        ).fetchall()
    )


async def test_no_search_sees_another_workspace(
    conninfo: str, place: Path, owner: Connection
) -> None:
    embedder = HashingEmbedder()
    trees: list[Tree] = []
    here = await prepare_database(conninfo, "tests", "")
    there = await prepare_database(conninfo, "elsewhere", FakeClock(9).new_id())
    async with (
        open_database(conninfo, here, sight=EVERYTHING) as one,
        open_database(conninfo, there, sight=EVERYTHING) as two,
    ):
        for number, database in enumerate((one, two)):
            world = FakeClock(number)
            tree = tree_on(database, Settings(place, user="ana"), world, embedder=embedder)
            await tree.turns.record("main", [user(f"zebra of {number}")], [assistant("yes")])
            await tree.search.fill_meanings()
            trees.append(tree)
        for number, tree in enumerate(trees):
            for query in ("zebra", "by:ana", "in:main", "after:2001-01-01", "zebra by:ana in:*"):
                titles = [hit.placed.turn.title for hit in (await tree.search(query)).hits]
                assert titles == [f"zebra of {number}"], query
    # The functions themselves, asked by somebody who is in no workspace.
    owner.execute("SET ROLE turntree_app")
    for workspace in ("", None):
        owner.execute(TAKE_PLACE, (workspace,))
        assert _ask(owner) == []


def _ask(connection: Connection) -> list[tuple[Any, ...]]:
    nothing = "NULL, NULL, NULL, NULL, NULL, NULL, false"
    vector = ",".join(["0.1"] * 384)
    rows: list[tuple[Any, ...]] = []
    zebra = "ARRAY['zebra'::tsquery]"
    for call in (
        f"search_words({zebra}, {zebra}, 1, false, {nothing}, 9, 9)",
        f"search_places({zebra}, false, {nothing}, 9)",
        f"search_names('zebra'::tsquery, {nothing}, 9)",
        f"search_names(NULL, {nothing}, 9)",
        f"search_embeddings('hashing-384', '{{{vector}}}', NULL, false, {nothing}, 9, 9, 9)",
    ):
        rows += connection.execute(f"SELECT * FROM turntree.{call}".encode()).fetchall()  # noqa: S608
    return rows


async def test_only_search_and_visibility_functions_are_security_definer(
    owner: Connection,
) -> None:
    rows = owner.execute(
        "SELECT proname, pg_get_userbyid(proowner), proacl::text FROM pg_proc"
        " WHERE pronamespace = 'turntree'::regnamespace AND prosecdef"
    ).fetchall()
    assert {name for name, _, _ in rows} == DEFINERS
    assert {by for _, by, _ in rows} == {"turntree_searcher"}
    # An entry without a name would be everybody.
    assert all("{=X" not in acl and ",=X" not in acl for _, _, acl in rows)


async def test_searcher_role_can_only_read_and_delete(owner: Connection) -> None:
    rights = owner.execute(
        "SELECT DISTINCT privilege_type, table_name IN ('search_documents', 'embeddings') FROM"
        " information_schema.table_privileges WHERE grantee = 'turntree_searcher'"
        " AND table_name <> 'console_bindings'"
    ).fetchall()
    assert set(rights) == {("SELECT", True), ("SELECT", False), ("DELETE", True)}
    role = owner.execute(
        "SELECT rolcanlogin, rolsuper, rolbypassrls FROM pg_roles"
        " WHERE rolname = 'turntree_searcher'"
    ).fetchone()
    assert role == (False, False, False)


async def test_vector_index_returns_nearest_turns(
    tree: Tree, database: Database, world: FakeClock, place: Path
) -> None:
    embedder = HashingEmbedder()
    tree = tree_on(database, Settings(place, user="ana"), world, embedder=embedder)
    for number in range(30):
        await tree.turns.record("main", [user(f"topic{number} zebra{number}")], [assistant("ok")])
    await tree.search.fill_meanings()
    (vector,) = await embedder.embed(["topic7 zebra7 ok"], "query")
    query = (await tree.search("anything")).query
    near = await tree.search.reader.list_by_meaning(query, embedder.id, vector, limit=3)
    assert (await tree.turns.get(near[0][0])).turn.title == "topic7 zebra7"
    assert near[0][1] > 0.9
    assert await tree.search.reader.list_by_meaning(query, "another", vector, limit=3) == []


async def test_search_replaces_documents_of_an_older_recipe(
    tree: Tree, owner: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.setattr("turntree.search.index_store.RECIPE", RECIPE - 1)
        for module in ("index_store", "service"):
            older.setattr(f"turntree.search.{module}.WORDS", f"words {RECIPE - 1}")
        await tree.turns.record("main", [user("zebras")], [assistant("yes")])
        assert (await tree.search("zebra")).hits
    assert (await tree.search("zebra")).hits
    recipes = owner.execute("SELECT recipe FROM turntree.search_documents").fetchall()
    assert recipes == [(RECIPE,)]


async def test_search_document_is_bounded_and_reproducible(tree: Tree, owner: Connection) -> None:
    await tree.turns.record(
        "main", [user(" ".join(f"word{n:04}x" for n in range(5000)))], [assistant("yes")]
    )
    await tree.search.fill()
    before = owner.execute("SELECT lexemes::text FROM turntree.search_documents").fetchall()
    ((words,),) = owner.execute(
        "SELECT tsvector_to_array(lexemes) FROM turntree.search_documents"
    ).fetchall()
    marks = [word for word in words if word.startswith("~")]
    assert 0 < len(marks) <= MARKS_MAX
    assert len(words) - len(marks) <= LEXEMES_MAX + 3
    await tree.search.forget()
    assert owner.execute("SELECT * FROM turntree.search_progress").fetchall() == []
    await tree.search.fill()
    assert owner.execute("SELECT lexemes::text FROM turntree.search_documents").fetchall() == before


def test_search_relaxes_from_all_words_to_some() -> None:
    assert ladder(["a"]) == ["a"]
    assert ladder(["a", "b"]) == ["a & b", "(a | b)"]
    assert ladder(["a", "b", "c"])[1] == "(a | b | c)"
    assert ladder(["a", "b", "c", "d"])[1] == "(a & (b | c | d) | (b & (c | d) | (c & d)))"
    assert ladder([]) == [""]


@pytest.mark.parametrize(("count", "needed"), [(4, [4, 2]), (5, [5, 3]), (6, [6, 5, 3])])
def test_search_asks_for_any_so_many_words(count: int, needed: list[int]) -> None:
    letters = "abcdef"[:count]
    for step, least in zip(ladder(list(letters)), needed, strict=True):
        for some in product([False, True], repeat=count):
            holds = eval(step, None, dict(zip(letters, some, strict=True)))  # noqa: S307
            assert holds == (sum(some) >= least), (step, some)


@pytest.mark.parametrize("sign", ["'", "\\", "a'b\\", "x:*&|!()"])
async def test_operator_value_may_contain_any_character(
    tree: Tree, sign: str, owner: Connection
) -> None:
    row = owner.execute("SELECT %s::text::tsquery", (quoted(sign),)).fetchone()
    assert row is not None
    assert (await tree.search(f"by:x{sign}".replace('"', ""))).hits == ()
