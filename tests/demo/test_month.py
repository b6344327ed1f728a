"""The sample data as values: how much there is, and that its code and its times fit together."""

import pytest

from turntree.demo.features import COMPANIONS, FEATURES, PROJECTS, Feature, fixed_code
from turntree.demo.planting import list_acts
from turntree.demo.story import PREFIX, STORY, Act

ACTS = list_acts(with_files=True)
SCENES = {scene.name: (act, scene) for act in ACTS for scene in act.scenes}


def test_month_has_its_size() -> None:
    assert len(ACTS) == 38
    assert sum(len(act.scenes) for act in ACTS) == 289
    assert 80 <= sum(bool(scene.writes) for _, scene in SCENES.values()) <= 90
    assert len({scene.by.id for _, scene in SCENES.values() if scene.by.kind == "agent"}) == 5
    assert sum(act.forks is not None for act in ACTS) == 8
    assert sum(act.spawned_by is not None for act in ACTS) == 7
    assert {scene.outcome for _, scene in SCENES.values()} == {"completed", "failed"}
    assert any(scene.summarizes for _, scene in SCENES.values())


def test_story_alone_has_no_files() -> None:
    assert list_acts(with_files=False) == STORY
    assert not any(scene.writes for act in STORY for scene in act.scenes)


def test_names_are_unique_and_say_that_it_is_sample_data() -> None:
    assert len({act.label for act in ACTS}) == len(ACTS)
    assert len(SCENES) == sum(len(act.scenes) for act in ACTS)
    assert all(act.label.startswith(PREFIX) for act in ACTS)
    assert all("sample data" in project.files["README.md"] for project in PROJECTS)


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.label)
def test_time_goes_on_within_a_session(act: Act) -> None:
    times = [scene.minutes_ago for scene in act.scenes]
    assert times == sorted(times, reverse=True)
    above = act.forks or act.spawned_by
    if above is not None:
        assert SCENES[above][1].minutes_ago >= times[0]


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name)
def test_each_mistake_is_in_the_code_and_is_fixed(feature: Feature) -> None:
    assert feature.wrong in feature.code
    fixed = fixed_code(feature)
    assert feature.right in fixed
    assert fixed not in (feature.code, feature.other)


@pytest.mark.parametrize("feature", [one for one in FEATURES if one.path.endswith(".py")],
                         ids=lambda feature: feature.name)  # fmt: skip
def test_sample_python_passes_its_own_tests(feature: Feature) -> None:
    scope: dict[str, object] = {}
    exec(fixed_code(feature), scope)  # noqa: S102
    body = [
        line
        for line in feature.test.splitlines()
        if not line.startswith(("from src", "from notes"))
    ]
    exec("\n".join(body), scope)  # noqa: S102
    checks = [check for name, check in scope.items() if name.startswith("test_")]
    assert checks
    for check in checks:
        assert callable(check)
        check()


def test_companions_name_features() -> None:
    assert {one.feature for one in COMPANIONS} <= {feature.name for feature in FEATURES}
