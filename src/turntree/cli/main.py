"""Entry point of the program ``turntree``.

It answers ``--version`` before importing anything else, so that scripts that ask every time do not
wait for a command line they do not use.
"""

import atexit
import gc
import sys

import turntree


def main() -> None:
    """Run the command line and exit with its exit code."""
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"turntree {turntree.__version__}\n")
        return
    # Python's last collection looks at every object once more, which takes longer than many
    # commands. It skips what is frozen; the system takes the memory back.
    atexit.register(gc.freeze)
    from turntree.cli.root import root

    root(prog_name="turntree")


if __name__ == "__main__":
    main()
