"""Text that tools put into a person's message."""

from turntree.core.message_context import split_injected, without_injected


def test_text_of_tools_is_told_apart_from_the_persons() -> None:
    text = "<system-reminder>\na\n</system-reminder>\nFix it\n<ide_selection>b</ide_selection> now"
    assert without_injected(text) == "Fix it\nnow"
    assert [one.is_injected for one in split_injected(text)] == [True, False, True, False]


def test_the_instructions_of_a_project_are_told_apart() -> None:
    text = "# AGENTS.md instructions for /srv\n\n<INSTRUCTIONS>\nTest.\n</INSTRUCTIONS>\nGo"
    assert without_injected(text) == "Go"


def test_tags_of_the_person_and_open_tags_stay_text() -> None:
    for text in ("<div>a</div>", "why does <system-reminder> appear?", "a < b"):
        assert without_injected(text) == text
