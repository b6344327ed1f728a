"""A title from the start of a body is the title of the turn, cut."""

from hypothesis import given
from hypothesis import strategies as st

from turntree.core import message as messages
from turntree.core.message import Message, assistant, user
from turntree.ledger.title_start import START_CHARS, TITLE_CHARS_MAX, find_title
from turntree.testing.contracts.ledger import a_turn


def start_of(*said: Message) -> str:
    return "\n".join(messages.line_of(message).decode() for message in said)


def test_whole_text_gives_what_the_person_wrote() -> None:
    said = user('<system-reminder>be kind</system-reminder>\n Why  is\nthe sky "blue"?')
    assert find_title(start_of(said, assistant("so")), is_cut=False) == 'Why is the sky "blue"?'


def test_cut_text_gives_its_beginning() -> None:
    text = start_of(user("a word " * 500))[:START_CHARS]
    title = find_title(text, is_cut=True)
    assert title is not None
    assert title.startswith("a word a word")
    assert len(title) == TITLE_CHARS_MAX


def test_text_that_begins_with_what_a_tool_added_takes_more() -> None:
    text = start_of(user(f"<system-reminder>{'x' * 2000}</system-reminder> hello"))
    assert find_title(text[:START_CHARS], is_cut=True) is None
    assert find_title(text, is_cut=False) == "hello"


def test_erased_message_gives_the_text_of_the_next() -> None:
    erased = '{"erased":"sha256:' + "0" * 64 + '"}'
    assert (
        find_title(f"{erased}\n{start_of(assistant('It is late.'))}", is_cut=False) == "It is late."
    )


def test_a_mention_is_shown_by_its_name() -> None:
    said = r"Ask @[Atlas \[2\]](agent:atlas) and @_[Ana](user:ana), not @[x](y) or a@b.example"
    turn = a_turn(1, said=said).turn
    assert turn.title == "Ask @Atlas [2] and @Ana, not @[x](y) or a@b.example"
    assert find_title(start_of(user(said)), is_cut=False) == turn.title


def test_text_cut_in_a_mention_leaves_it_out() -> None:
    for rest in ("@", "@[", "@[Atlas", "@[Atlas]", "@[Atlas](agent:at"):
        start = start_of(user(f"Hello @[Ana](user:ana), ask {rest}"))
        whole = start[: start.index(rest, start.index("ask")) + len(rest)]
        assert find_title(whole, is_cut=True) in {"Hello @Ana, ask", "Hello @Ana, ask @"}


@given(st.text(), st.integers(0, 400))
def test_cut_anywhere_never_fails(text: str, at: int) -> None:
    said = start_of(user(text or "x"), assistant("y"))
    title = find_title(said[:at], is_cut=True)
    whole = " ".join((text or "x").split())
    assert title is None or whole.startswith(title.rstrip()) or not whole


@given(st.text(min_size=1))
def test_uncut_start_gives_the_title_of_the_turn(text: str) -> None:
    turn = a_turn(1, said=text).turn
    body = "\n".join(messages.line_of(message).decode() for message in turn.messages)
    assert find_title(body, is_cut=False) == turn.title[:TITLE_CHARS_MAX].rstrip()
