"""Share a thread: one file for a colleague, who can read it in a browser and import it.

Knows the ledger and the page. Removes secrets even where the user keeps them in the ledger.
"""

from dataclasses import replace

from turntree.api import Tree
from turntree.boot.open import imports_on
from turntree.boot.thread_objects import read_whole
from turntree.core.value import value
from turntree.transfer.share import RedactionReport
from turntree.transfer.share_page import to_page


@value
class SharedFile:
    """A thread as one file, and what is not in it."""

    page: str
    label: str
    turns: int
    report: RedactionReport


async def share_thread(tree: Tree, revision: str, import_command: str) -> SharedFile:
    """Return a thread as one file, which names the command that imports it.

    Raises:
        NotFound: The revision names nothing.
        InvalidOperation: What cannot be left out holds a secret, such as a path or a tag.
    """
    found = await tree.resolve(revision)
    thread = (await read_whole(tree, found.turn, visible=False)).turns
    label = f"shared-{found.turn[:8]}" if found.session is None else found.session.label
    # What a user keeps at home is one decision, and what leaves the machine is another.
    redactor = replace(tree.runs.redactor, is_on=True)
    archive = await tree.archives.share(thread, label, redactor)
    imports = imports_on(tree.archives.database)
    askers = await imports.list_importers([placed.turn.id for placed in thread])
    page = to_page(thread, archive, askers, redactor, import_command)
    return SharedFile(page, label, len(thread), archive.report)
