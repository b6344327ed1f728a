"""What Codex is told about hooks that somebody trusts."""

import tomllib

import pytest

from turntree.core.errors import InvalidOperation
from turntree.hooks.codex_trust import list_missing, trusted, with_trust, without_trust

CONFIG = 'model = "gpt"\n\n[features]\napps = false'
HOOK = trusted("/home/ana/.codex/hooks.json", "UserPromptSubmit", 1, "sh it begin", 3)


def test_a_hook_has_the_name_and_the_hash_that_codex_gives_it() -> None:
    # As `hooks/list` of Codex 0.166 answered for this very hook.
    found = trusted("/h/hooks.json", "UserPromptSubmit", 0, "sh 'a hook' codex ä", 3)
    assert found.key == "/h/hooks.json:user_prompt_submit:0:0"
    assert found.digest == (
        "sha256:9555fc74185c4d9b1a0139e2dfea94dd7ea35890a0e018120d25b68c2c1e5dd6"
    )


def test_trusting_adds_to_the_end_and_distrusting_takes_it_back() -> None:
    told = with_trust(CONFIG, [HOOK])
    assert told.startswith(CONFIG)
    assert tomllib.loads(told)["hooks"]["state"][HOOK.key] == {"trusted_hash": HOOK.digest}
    assert list_missing(told, [HOOK]) == []
    assert with_trust(told, [HOOK]) == told
    assert without_trust(told, [HOOK]).strip() == CONFIG


def test_what_codex_was_told_by_somebody_else_is_not_contradicted() -> None:
    theirs = f'{CONFIG}\n[hooks.state."{HOOK.key}"]\ntrusted_hash = "sha256:other"\n'
    assert list_missing(theirs, [HOOK]) == [HOOK]
    with pytest.raises(InvalidOperation, match="/hooks"):
        with_trust(theirs, [HOOK])


def test_settings_that_are_no_toml_are_refused() -> None:
    with pytest.raises(InvalidOperation):
        with_trust("model = ", [HOOK])
