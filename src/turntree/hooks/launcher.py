"""The launcher: a small shell script that all hooks call, and the commands that call it.

Tool settings name only this script, so that they need not change, nor be trusted again, when
Turntree is installed elsewhere. The script always exits with 0 and prints nothing: a tool treats
other codes as a veto, and would block the user's prompt.
"""

import os
import shlex
import shutil
from pathlib import Path
from typing import Final

from turntree.db.embedded.account import make_home

NAME: Final = "turntree-hook"
_SCRIPT: Final = """\
#!/bin/sh
# Called by the hooks of coding agents; written again when hooks are installed.
# Set TURNTREE_HOOKS=off to have nothing recorded.
[ "$TURNTREE_HOOKS" = off ] && exit 0
python={python}
entry={entry}
home={home}
spool="$home/spool"
start() {{
  if [ -x "$python" ] && [ -r "$entry" ]; then
    "$python" -I "$entry" --home "$home" "$@" >/dev/null 2>&1
  elif command -v turntree-hook >/dev/null 2>&1; then
    turntree-hook --home "$home" "$@" >/dev/null 2>&1
  fi
}}
pid=
[ -p "$spool/daemon.fifo" ] && read -r pid 2>/dev/null <"$spool/daemon.lock"
if [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null; then
  # The hook daemon is running: it gets the event, and no process has to be started.
  said="$spool/sh-$$-$PPID"
  {{
    printf '%s\\0%s\\0%s\\0%s\\n' "$1" "$2" "${{CLAUDE_PROJECT_DIR:-$GEMINI_PROJECT_DIR}}" "$PWD"
    cat
  }} >"$said.new" 2>/dev/null && mv "$said.new" "$said.raw" &&
    # Opened for reading too: if the daemon has just ended, opening must not block.
    echo 1<>"$spool/daemon.fifo"
  for poll in {polls}; do
    [ -e "$said.raw" ] || break
    sleep "$poll" 2>/dev/null
  done
  case "$2" in begin | call | return)
    # The agent goes on now. The snapshot may already contain what it does.
    [ -e "$said.raw" ] && : >"$said.late" ;;
  session | end | close)
    # A function's own redirections would leave the agent's pipe open as long as it runs.
    (exec </dev/null >/dev/null 2>&1; start --drain "$said") & ;;
  esac
else
  start "$@"
fi
exit 0
"""
_POLLS_S: Final = (0.008, 0.012, 0.024, 0.028)
"""How long to wait for the daemon, in few pieces: each starts a process, which takes as long."""


def launcher_path(home: Path) -> Path:
    """Return where the script is, or would be."""
    return home / NAME


def find_lost_python(home: Path, search_path: str | None) -> str | None:
    """Return the Python that the script calls if it is gone and nothing can take its place."""
    lines = launcher_path(home).read_text(encoding="utf-8").splitlines()
    (python,) = next(shlex.split(line[7:]) for line in lines if line.startswith("python="))
    is_lost = not os.access(python, os.X_OK) and shutil.which(NAME, path=search_path) is None
    return python if is_lost else None


def write_launcher(home: Path, python: Path, entry: Path) -> Path:
    """Write the script and return where it is."""
    path = launcher_path(home)
    text = _SCRIPT.format(
        python=shlex.quote(str(python)),
        entry=shlex.quote(str(entry)),
        home=shlex.quote(str(home)),
        polls=" ".join(map(str, _POLLS_S)),
    )
    make_home(home)
    # Its own name in each process: two may install hooks at the same time.
    fresh = path.with_name(f"{NAME}.{os.getpid()}.new")
    fresh.write_text(text, encoding="utf-8")
    fresh.chmod(0o755)
    fresh.replace(path)
    return path


def command(home: Path, tool: str, kind: str) -> str:
    """Return the command for a tool's settings; without the script it does nothing and succeeds."""
    script = shlex.quote(str(launcher_path(home)))
    # A shell that finds no script exits with 2, which some tools treat as a veto.
    return f"[ ! -r {script} ] || sh {script} {tool} {kind}"
