"""The page as it is shipped: small, made the same twice, and never older than its source.

* ``size``: what a browser loads for each route, compressed, and what the page adds to a wheel. A
  route is counted with everything that its page may load by itself; the highlighter of code comes
  later, and is told apart.
* ``types``: the types of the API are those that the server describes.
* ``release``: a wheel is made with a fresh page, and refused with a stale or a missing one.
* ``same``: a second build, in another folder, gives the same bytes (not in the quick form).
"""

import gzip
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from proofs.figures import Proof, run

ROOT = Path(__file__).parent.parent
PAGE = "src/turntree/server/page"
FIRST = "src/canopy/CanopyPage.tsx"
ENTRY = "index.html"
# Loaded when code comes into view; grammars one by one.
LATE = ("highlight", "langs")
FIRST_KB_MAX = 160
OTHER_KB_MAX = 100
WHEEL_MB_MAX = 1.5
KB = 1000
SHIPPED = ("src", "web", "examples", "pyproject.toml", "README.md", "LICENSE")


async def prove(proof: Proof) -> None:
    """Show the parts that were asked for."""
    tools = load_tools()
    if tools.find_fault(ROOT / "web", ROOT / PAGE) is not None:
        tools.build(ROOT / PAGE)
    if proof.begins("size"):
        prove_sizes(proof)
    if proof.begins("types"):
        is_fresh = tools.TYPES.read_text("utf-8") == tools.generated_types()
        proof.at_least("types that are those of the server", int(is_fresh), "", 1)
    with tempfile.TemporaryDirectory(prefix="turntree-page-") as place:
        if proof.begins("release"):
            prove_release(proof, Path(place))
        if not proof.quick and proof.begins("same"):
            prove_same(proof, Path(place))


def load_tools() -> ModuleType:
    """Return web/tools/build.py, which is a script and in no package."""
    spec = importlib.util.spec_from_file_location("web_build", ROOT / "web/tools/build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def prove_sizes(proof: Proof) -> None:
    """Each route is small, and the first one very much so."""
    manifest: dict[str, Any] = json.loads((ROOT / PAGE / "manifest.json").read_bytes())
    first = files_of(manifest, (ENTRY, FIRST))
    proof.at_most("first route, JavaScript", size_of(first), "KB gzip", FIRST_KB_MAX)
    routes = sorted(name for name in manifest if name.endswith("Page.tsx") and name != FIRST)
    assert len(routes) >= 7, "the routes have other names now"
    more = {
        route: size_of(files_of(manifest, (ENTRY, route)) - files_of(manifest, (ENTRY,)))
        for route in routes
    }
    for route, size in more.items():
        proof.note(f"{Path(route).stem}, JavaScript beyond the shell", size, "KB gzip")
    proof.at_most("largest other route beyond the first", max(
        size_of(files_of(manifest, (ENTRY, route)) - first) for route in routes
    ), "KB gzip", OTHER_KB_MAX)  # fmt: skip
    late = {name for name in manifest if is_late(name)}
    highlighter = {manifest[name]["file"] for name in late if "highlight" in name}
    proof.note("highlighter of code, loaded late", size_of(highlighter), "KB gzip")


def files_of(manifest: dict[str, Any], names: Iterable[str]) -> frozenset[str]:
    """Return the scripts that are loaded for chunks: what they import, and what a page loads late.

    What the shell loads on demand (dialogs, the palette, other pages) is not part of a route.
    """
    files: set[str] = set()
    waiting = list(names)
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        chunk = manifest[name]
        files.add(chunk["file"])
        waiting += chunk.get("imports", ())
        if name.endswith("Page.tsx"):
            late = chunk.get("dynamicImports", ())
            waiting += [one for one in late if not is_late(one) and not one.endswith("Page.tsx")]
    return frozenset(file for file in files if file.endswith(".js"))


def is_late(name: str) -> bool:
    """Say whether a chunk belongs to the highlighter."""
    return any(word in name for word in LATE)


def size_of(files: Iterable[str]) -> float:
    """Return the size of scripts as a browser fetches them."""
    folder = ROOT / PAGE
    return sum(len(gzip.compress((folder / file).read_bytes(), 9)) for file in files) / KB


def prove_release(proof: Proof, place: Path) -> None:
    """A wheel carries the page, and none is made without a fresh one."""
    tree = place / "tree"
    for name in SHIPPED:
        copy(ROOT / name, tree / name)
    built = release(tree, place / "dist")
    proof.at_least("wheels made with a fresh page", int(built is None), "", 1)
    (wheel,) = (place / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        page = [item for item in archive.infolist() if "/server/page/" in item.filename]
    proof.at_least(
        "pages in the wheel", sum(i.filename.endswith("index.html") for i in page), "", 1
    )
    size = sum(item.compress_size for item in page) / KB / KB
    proof.at_most("what the page adds to the wheel", size, "MB", WHEEL_MB_MAX)

    source = tree / "web/src/main.tsx"
    source.write_text(source.read_text("utf-8") + "\n", encoding="utf-8")
    told = release(tree, place / "stale") or ""
    proof.at_least("wheels refused with a stale page", int("is stale" in told), "", 1)
    shutil.rmtree(tree / PAGE)
    told = release(tree, place / "missing") or ""
    proof.at_least("wheels refused without a page", int("is not built" in told), "", 1)


def release(tree: Path, out: Path) -> str | None:
    """Return why no wheel could be made of a tree; None if one was."""
    made = subprocess.run(
        ["uv", "build", "--wheel", "--out-dir", out, tree],
        check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return None if made.returncode == 0 else made.stdout + made.stderr


def prove_same(proof: Proof, place: Path) -> None:
    """Two folders, one result."""
    digests: list[dict[str, str]] = []
    for name in ("one", "another/folder"):
        tree = place / name
        copy(ROOT / "web", tree / "web", with_modules=True)
        subprocess.run(
            [sys.executable, tree / "web/tools/build.py", "build"],
            check=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        digests.append(digest_files(tree / PAGE))
    digests.append(digest_files(ROOT / PAGE))
    names = set().union(*digests)
    odd = [name for name in names if len({told.get(name) for told in digests}) != 1]
    proof.note("files of the page", len(names), "files")
    proof.at_most("files that differ between builds in other folders", len(odd), "files", 0)


def digest_files(folder: Path) -> dict[str, str]:
    """Return the digest of each file below a folder."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def copy(source: Path, target: Path, *, with_modules: bool = False) -> None:
    """Copy a file or a folder; modules of the page, which are many, are linked."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_file():
        shutil.copy2(source, target)
        return
    skip = shutil.ignore_patterns("__pycache__", "node_modules")
    shutil.copytree(source, target, ignore=skip)
    if with_modules:
        shutil.copytree(
            source / "node_modules", target / "node_modules", copy_function=os.link, symlinks=True
        )


if __name__ == "__main__":
    run(prove, __doc__ or "")
