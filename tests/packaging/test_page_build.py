"""What the build hook of a release says about the page."""

import importlib.util
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tools() -> ModuleType:
    """The module that builds the page, loaded by its path as the hook does."""
    spec = importlib.util.spec_from_file_location("web_build", ROOT / "web/tools/build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def web(tmp_path: Path) -> Path:
    web = tmp_path / "web"
    (web / "src").mkdir(parents=True)
    (web / "src" / "main.tsx").write_text("one")
    (web / "index.html").write_text("<!doctype html>")
    return web


@pytest.fixture
def page(tools: ModuleType, web: Path) -> Path:
    page = web.parent / "page"
    page.mkdir()
    (page / "index.html").write_text("built")
    (page / tools.DIGEST).write_text(tools.digest_of(web) + "\n")
    return page


def test_a_fresh_page_may_be_shipped(tools: ModuleType, web: Path, page: Path) -> None:
    assert tools.find_fault(web, page) is None


def test_a_missing_page_is_refused(tools: ModuleType, web: Path, tmp_path: Path) -> None:
    assert "not built" in tools.find_fault(web, tmp_path / "nowhere")


def test_a_page_without_a_digest_is_refused(tools: ModuleType, web: Path, page: Path) -> None:
    (page / tools.DIGEST).unlink()
    assert "missing" in tools.find_fault(web, page)


@pytest.mark.parametrize("name", ["src/main.tsx", "src/added.css", "package-lock.json"])
def test_a_page_older_than_a_source_is_refused(
    tools: ModuleType, web: Path, page: Path, name: str
) -> None:
    (web / name).write_text("changed")
    assert "stale" in tools.find_fault(web, page)


def test_a_source_that_moved_makes_the_page_stale(tools: ModuleType, web: Path, page: Path) -> None:
    (web / "src" / "main.tsx").rename(web / "src" / "other.tsx")
    assert "stale" in tools.find_fault(web, page)


@pytest.mark.parametrize(
    "name", ["node_modules/react/index.js", "tools/build.py", "src/main.test.ts", ".npmrc"]
)
def test_what_the_page_is_not_made_of_leaves_it_fresh(
    tools: ModuleType, web: Path, page: Path, name: str
) -> None:
    path = web / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("changed")
    assert tools.find_fault(web, page) is None


def test_the_lock_of_the_page_names_no_registry() -> None:
    assert '"resolved"' not in (ROOT / "web/package-lock.json").read_text("utf-8")


def test_a_release_carries_the_page_and_its_source() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]
    assert build["artifacts"] == ["/src/turntree/server/page/**"]
    assert build["hooks"]["custom"]["path"] == "web/tools/build_hook.py"
    assert "/web" in build["targets"]["sdist"]["include"]
