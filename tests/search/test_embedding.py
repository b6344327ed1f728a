"""The words that say what a program is about."""

from turntree.search.embedding import DESCRIPTION_CHARS_MAX, program_text, text_digest


def test_program_text_starts_with_name_and_description() -> None:
    text = program_text(
        "agent",
        "atlas",
        {"tools": ["@(grep)", "reads files"], "description": "repairs cars", "harness": {"n": 3}},
    )
    assert text.split("\n") == ["agent atlas", "repairs cars", " ", "reads files"]


def test_program_text_omits_references_and_secrets() -> None:
    config = {"provider": "@(openai)", "key": "${OPENAI_API_KEY}", "note": "use @(x) with ${Y}"}
    assert "openai" not in program_text("model", "gpt", config).lower()
    assert "use   with" in program_text("model", "gpt", config)


def test_a_long_config_is_cut() -> None:
    assert len(program_text("code", "x", {"source": "y" * 10_000})) == DESCRIPTION_CHARS_MAX


def test_texts_with_any_characters_stay_distinct() -> None:
    assert text_digest("a") == text_digest("a") != text_digest("b")
    assert text_digest("\ud800")
