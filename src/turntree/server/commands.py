"""Commands that do what an act does, as the user would type them in any folder."""

from turntree.core.ids import Digest
from turntree.server.context import ServerContext
from turntree.system.shell_words import joined, positional, quoted
from turntree.wire.acts import ConflictChoice, MergeChoice

DIGITS_SHOWN = 8
DEFAULT_WORKSPACE = "default"


def spell(context: ServerContext, *words: str) -> str:
    """Return a command line that works on the ledger of this server."""
    workspace = context.settings.workspace
    before = "" if workspace == DEFAULT_WORKSPACE else f"TURNTREE_WORKSPACE={quoted(workspace)} "
    return before + joined(["turntree", *words])


def spell_in(context: ServerContext, folder: str, *words: str) -> str:
    """Return a command line that means the folder it is typed in."""
    return f"{joined(['cd', folder])} && {spell(context, *words)}"


def spell_tag(context: ServerContext, digest: Digest, name: str, *, on: bool) -> str:
    """Return the command that adds a tag to a turn or removes it; a tag may begin with a dash."""
    words = ["tag", *([] if on else ["--delete"]), short(digest)]
    return f"{spell(context, *words)} {positional(name)}"


def spell_fork(
    context: ServerContext, at: str, label: str, *, with_files: bool, folder: str | None
) -> str:
    """Return the command that forks a turn."""
    files = ["--files", *([] if folder is None else [folder])] if with_files else []
    return spell(context, "fork", at, label, *files)


def spell_removal(context: ServerContext, folders: list[str], label: str) -> str:
    """Return the command that removes what a fork with files created."""
    steps = [spell(context, "worktree", "--remove", folder) for folder in folders]
    return " && ".join([*steps, spell(context, "session", "archive", label)])


def decide(conflicts: ConflictChoice | MergeChoice) -> list[str]:
    """Return the option that decides about files which a turn and another writer changed."""
    return [] if conflicts == "ask" else [f"--{conflicts}"]


def short(digest: Digest | None) -> str:
    """Return the digits by which people name a turn."""
    return "(empty)" if digest is None else digest.removeprefix("sha256:")[:DIGITS_SHOWN]
