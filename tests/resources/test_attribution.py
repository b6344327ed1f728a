"""Whose a change is, and what going back may touch."""

from hypothesis import given
from hypothesis import strategies as st

from turntree.core.ids import Digest, Timestamp, TurnId
from turntree.resources.attribution import (
    By,
    ChangedByTurn,
    ChangedByUnknown,
    ChangedOutside,
    Side,
    TurnActivity,
    attribute,
    attribute_gap,
    of_paths,
    settle,
    sides,
    untouched_since,
)
from turntree.resources.resource import EntryKind, FileChange, FileEntry

ONE, TWO, THREE = TurnId("one"), TurnId("two"), TurnId("three")


def work(
    turn: TurnId, began: int, ended: int, changed: str = "", written: str = ""
) -> TurnActivity:
    first, last = (Timestamp(f"2026-01-01T00:0{minute}:00.000Z") for minute in (began, ended))
    return TurnActivity(turn, first, last, frozenset(changed.split()), frozenset(written.split()))


def entry(path: str, kind: EntryKind = "file", word: str = "") -> FileEntry:
    digest = None if kind == "directory" else Digest(f"sha256:{word or path}")
    return FileEntry(path, kind, 0o644, 0, digest)


def change(path: str, old: FileEntry | None, new: FileEntry | None) -> FileChange:
    return FileChange(
        path, "added" if old is None else "removed" if new is None else "changed", old, new
    )


def edit(path: str) -> FileChange:
    return change(path, entry(path, word="now"), entry(path, word="then"))


def add(path: str, kind: EntryKind = "file") -> FileChange:
    return change(path, None, entry(path, kind))


def drop(path: str, kind: EntryKind = "file") -> FileChange:
    return change(path, entry(path, kind), None)


def paths(changes: tuple[FileChange, ...]) -> list[str]:
    return [one.path for one in changes]


def test_what_changed_while_one_turn_was_at_work_is_its_own() -> None:
    found = attribute([work(ONE, 1, 2, "a b"), work(TWO, 3, 4, "a")])
    assert found == {
        ONE: {"a": ChangedByTurn(ONE), "b": ChangedByTurn(ONE)},
        TWO: {"a": ChangedByTurn(TWO)},
    }


def test_turns_at_work_at_once_are_told_apart_by_what_they_wrote() -> None:
    left, right = work(ONE, 1, 3, "a b c", "a c"), work(TWO, 2, 4, "a b c", "b c")
    told = {"a": ChangedByTurn(ONE), "b": ChangedByTurn(TWO), "c": ChangedByUnknown((ONE, TWO))}
    assert attribute([left, right]) == {ONE: told, TWO: told}


def test_who_begins_as_the_other_ends_is_no_rival() -> None:
    found = attribute([work(ONE, 1, 2, "a"), work(TWO, 2, 3, "a")])
    assert found == {ONE: {"a": ChangedByTurn(ONE)}, TWO: {"a": ChangedByTurn(TWO)}}
    both = ChangedByUnknown((ONE, TWO))
    found = attribute([work(ONE, 2, 2, "a"), work(TWO, 2, 3, "a")])
    assert found == {ONE: {"a": both}, TWO: {"a": both}}


def test_who_saw_no_change_is_no_rival() -> None:
    found = attribute([work(ONE, 1, 3, "a"), work(TWO, 2, 4, "", "a")])
    assert found[ONE] == {"a": ChangedByTurn(ONE)}


def test_changes_that_nobody_names_are_mixed_among_all_who_saw_them() -> None:
    works = [work(TWO, 1, 5, "a"), work(ONE, 2, 3, "a"), work(THREE, 6, 7, "a")]
    assert attribute(works)[TWO] == {"a": ChangedByUnknown((ONE, TWO))}


def test_to_who_goes_back_everything_is_theirs_or_others_or_unclear() -> None:
    changes: dict[str, By] = {
        "a": ChangedByTurn(ONE),
        "b": ChangedByTurn(TWO),
        "c": ChangedOutside(),
        "d": ChangedByUnknown((ONE, TWO)),
        "e": ChangedByUnknown((ONE, THREE)),
        "f": ChangedByUnknown((TWO, TurnId("four"))),
    }
    assert sides(changes, {ONE, THREE}) == {
        "a": "ours",
        "b": "others",
        "c": "others",
        "d": "unclear",
        "e": "ours",
        "f": "others",
    }


def test_ours_go_back_others_stay_and_both_are_a_conflict() -> None:
    differences = [edit(path) for path in "abcde"]
    deeds: list[dict[str, Side]] = [
        {"a": "ours", "b": "others", "c": "ours"},
        {"c": "others", "d": "unclear"},
    ]
    settled = settle(differences, deeds)
    assert paths(settled.applied) == ["a", "e"]
    assert paths(settled.kept) == ["b"]
    assert paths(settled.conflicts) == ["c", "d"]
    assert settled.paths == {"a", "e"}


def test_what_others_changed_and_the_other_branch_too_is_a_conflict() -> None:
    settled = settle([edit("a"), edit("b")], [{"a": "others", "b": "others"}], {"a"})
    assert (paths(settled.conflicts), paths(settled.kept)) == (["a"], ["b"])


def test_a_folder_stands_as_long_as_something_stays_in_it() -> None:
    differences = [drop("d", "directory"), drop("d/ours"), drop("d/theirs")]
    deeds: list[dict[str, Side]] = [{"d": "ours", "d/ours": "ours", "d/theirs": "others"}]
    settled = settle(differences, deeds)
    assert (paths(settled.applied), paths(settled.kept)) == (["d/ours"], ["d/theirs"])
    assert not settled.conflicts


def test_a_file_cannot_come_where_something_stays_in_a_folder() -> None:
    differences = [change("d", entry("d", "directory"), entry("d")), drop("d/theirs")]
    settled = settle(differences, [{"d": "ours", "d/theirs": "others"}])
    assert paths(settled.conflicts) == ["d"]


def test_what_changes_between_two_turns_is_whose_who_is_still_at_work() -> None:
    left = [work(ONE, 0, 5, "a b", "b"), work(TWO, 1, 6, "b c"), work(THREE, 1, 6, "c")]
    assert attribute_gap({"a", "b", "c", "d"}, left) == {
        "a": ChangedByTurn(ONE), "b": ChangedByTurn(ONE), "c": ChangedByUnknown((THREE, TWO)),
        "d": ChangedOutside(),
    }  # fmt: skip


def test_nothing_comes_below_a_file_that_stays() -> None:
    differences = [change("d", entry("d"), entry("d", "directory")), add("d/old")]
    settled = settle(differences, [{"d": "others", "d/old": "ours"}])
    assert (paths(settled.kept), paths(settled.conflicts)) == (["d"], ["d/old"])


names = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map("/".join)
whose = st.dictionaries(names, st.sampled_from(["ours", "others", "unclear"]))


@given(st.sets(names), st.lists(whose, max_size=3), st.sets(names))
def test_every_difference_has_one_verdict_and_others_are_never_touched(
    found: set[str], deeds: list[dict[str, Side]], wanted: set[str]
) -> None:
    differences = [edit(path) for path in sorted(found)]
    settled = settle(differences, deeds, wanted)
    judged = [*paths(settled.applied), *paths(settled.kept), *paths(settled.conflicts)]
    assert sorted(judged) == sorted(found)
    touched = {path for deed in deeds for path, side in deed.items() if side != "ours"}
    assert not settled.paths & touched


def test_what_a_plan_neither_found_nor_brought_stays() -> None:
    differences = [edit("a"), edit("b"), add("c"), drop("d/new"), edit("d/x"), add("e/y")]
    known = {"a": {"sha256:now", "sha256:then"}, "d/x": {"sha256:now"}}
    assert untouched_since(differences, known) == {"a", "c", "d/x", "e/y"}


def test_whatever_lies_above_or_below_what_stays_stays_too() -> None:
    differences = [
        change("d", entry("d", "directory"), entry("d")),
        drop("d/theirs"),
        change("f", entry("f", word="theirs"), entry("f", "directory")),
        add("f/x"),
        change("g", entry("g", "directory"), entry("g", "directory")),
        drop("g/theirs"),
    ]
    assert untouched_since(differences, {}) == {"g"}


def test_a_folder_goes_with_the_paths_that_it_came_for() -> None:
    found = [drop("x", "directory"), drop("x/y", "directory"), drop("x/y/a"), edit("b")]
    assert paths(tuple(of_paths(found, {"x/y/a"}))) == ["x", "x/y", "x/y/a"]
    assert of_paths(found, None) == found
    assert of_paths(found, {"b"}) == [edit("b")]


def test_a_folder_in_which_something_else_stands_stays() -> None:
    found = [drop("x", "directory"), drop("x/mine"), drop("x/y", "directory"), drop("x/y/a")]
    assert paths(tuple(of_paths(found, {"x/y/a"}))) == ["x/y", "x/y/a"]
