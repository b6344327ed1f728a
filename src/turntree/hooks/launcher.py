"""The launcher: a small shell script that all hooks call, and the commands that call it.

Tool settings name only this script, so that they need not change, nor be trusted again, when
Turntree is installed elsewhere. The script always exits with 0: a tool treats other codes as a
veto, and would block the user's prompt. It prints nothing, except the answer of the judge to the
very call that it was asked about. Without one in time the tool asks its user; where the user has
told it to ask nothing, the launcher asks or denies itself.
"""

import os
import shlex
import shutil
from pathlib import Path
from typing import Final

from turntree.db.embedded.account import make_home
from turntree.hooks.events import JUDGE_KINDS

NAME: Final = "turntree-hook"
_SCRIPT: Final = """\
#!/bin/sh
# Called by the hooks of coding agents; written again when hooks are installed.
# Set TURNTREE_HOOKS=off to have nothing recorded. It does not switch off the judge: a project's
# settings may set variables.
if [ "$TURNTREE_HOOKS" = off ]; then
  case "$2" in judge | permit) ;; *) exit 0 ;; esac
fi
python={python}
entry={entry}
home={home}
spool="$home/spool"
report=
case "$2" in judge | permit) report=$(cat) ;; esac
give() {{
  if [ -n "$report" ]; then printf '%s' "$report"; else cat; fi
}}
refuse() {{
  # The user would not be asked, and without an answer the call would be made. What a call says
  # cannot hide the mode: in a text its quotes are escaped.
  case "$1$2$report" in
  claude-codejudge*'"permission_mode":'*'"bypassPermissions"'*) word=ask ;;
  claude-codejudge*'"permission_mode":'*'"auto"'*) word=ask ;;
  codexjudge*'"permission_mode":'*'"bypassPermissions"'*) word=deny ;;
  *) return ;;
  esac
  printf '{{"hookSpecificOutput":{{"hookEventName":"PreToolUse","permissionDecision":"%s",' "$word"
  printf '"permissionDecisionReason":"Turntree: {reason}"}}}}\n'
}}
start() {{
  if [ -x "$python" ] && [ -r "$entry" ]; then
    "$python" -I "$entry" --home "$home" "$@" 2>/dev/null
  elif command -v turntree-hook >/dev/null 2>&1; then
    turntree-hook --home "$home" "$@" 2>/dev/null
  else
    return 1
  fi
}}
pid=
[ -p "$spool/daemon.fifo" ] && read -r pid 2>/dev/null <"$spool/daemon.lock"
if [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null; then
  # The hook daemon is running: it gets the event, and no process has to be started.
  said="$spool/sh-$$-$PPID"
  waits=0 polls="{polls}"
  case "$2" in judge | permit)
    # A name that nothing else has or will have: the answer is to this call.
    said=$(mktemp "$spool/ask-XXXXXXXXXXXX" 2>/dev/null) || {{ refuse "$@"; exit 0; }}
    waits={short_s} polls="$polls {more_polls}"
    # Claude Code shows meanwhile that a hook runs.
    [ "$1" = claude-code ] && waits={long_s} polls="$polls {most_polls}" ;;
  esac
  {{
    printf '%s\\0%s\\0%s\\0%s\\0%s\\0%s\\n' "$1" "$2" \
      "${{CLAUDE_PROJECT_DIR:-$GEMINI_PROJECT_DIR}}" "$PWD" "$CLAUDE_CODE_ENTRYPOINT" "$waits"
    give
  }} >"$said.new" 2>/dev/null && mv "$said.new" "$said.raw" &&
    # Opened for reading too: if the daemon has just ended, opening must not block.
    echo 1<>"$spool/daemon.fifo"
  for poll in $polls; do
    [ -e "$said.raw" ] || break
    # A snapshot may take longer than an agent should wait for it; its question is answered first.
    case "$poll" in {more_pattern}) [ -e "$said.answer" ] && break ;; esac
    sleep "$poll" 2>/dev/null
  done
  case "$2" in judge | permit)
    # An answer without a document leaves the call to the tool's own rules.
    [ -r "$said.answer" ] && {{
      read -r bound && [ "$bound" = "${{said##*/}}" ] && cat
    }} <"$said.answer" 2>/dev/null || refuse "$@"
    rm -f "$said" "$said.answer" ;;
  esac
  case "$2" in begin | call | return | judge)
    # The agent goes on now. The snapshot may already contain what it does.
    [ -e "$said.raw" ] && : >"$said.late" ;;
  session | end | close)
    # A function's own redirections would leave the agent's pipe open as long as it runs.
    (exec </dev/null >/dev/null 2>&1; start --drain "$said") & ;;
  esac
else
  case "$2" in
  judge | permit) printf '%s' "$report" | start "$@" || refuse "$@" ;;
  *) start "$@" >/dev/null ;;
  esac
fi
exit 0
"""
_REASON: Final = "the judge gave no answer in time"
_POLLS_S: Final = (0.008, 0.012, 0.024, 0.028)
"""How long to wait for the daemon, in few pieces: each starts a process, which takes as long."""
_MORE_POLLS_S: Final = (0.05, 0.1, 0.2, 0.4, 0.8)
"""The pauses in which a hook then waits for the judge; after them the tool asks its user."""
_MOST_POLLS_S: Final = (1.0, 1.5)
"""And how much longer for Claude Code, which shows that a hook runs."""


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
        reason=_REASON,
        polls=" ".join(map(str, _POLLS_S)),
        more_polls=" ".join(map(str, _MORE_POLLS_S)),
        most_polls=" ".join(map(str, _MOST_POLLS_S)),
        more_pattern=" | ".join(map(str, (*_MORE_POLLS_S, *_MOST_POLLS_S))),
        short_s=sum((*_POLLS_S, *_MORE_POLLS_S)),
        long_s=sum((*_POLLS_S, *_MORE_POLLS_S, *_MOST_POLLS_S)),
    )
    make_home(home)
    # Its own name in each process: two may install hooks at the same time.
    fresh = path.with_name(f"{NAME}.{os.getpid()}.new")
    fresh.write_text(text, encoding="utf-8")
    fresh.chmod(0o755)
    fresh.replace(path)
    return path


def is_judging(command: str) -> bool:
    """Whether a command of ours asks the judge."""
    return command.rpartition(" ")[2] in JUDGE_KINDS


def command(home: Path, tool: str, kind: str) -> str:
    """Return the command for a tool's settings; without the script it does nothing and succeeds."""
    script = shlex.quote(str(launcher_path(home)))
    # A shell that finds no script exits with 2, which some tools treat as a veto.
    return f"[ ! -r {script} ] || sh {script} {tool} {kind}"
