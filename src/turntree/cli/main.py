"""Entry point of the program ``turntree``.

It answers ``--version`` before importing anything else, so that scripts that ask every time do not
wait for a command line they do not use.
"""

import sys

import turntree


def main() -> None:
    """Run the command line and exit with its exit code."""
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"turntree {turntree.__version__}\n")
        return
    from turntree.cli.root import root

    root(prog_name="turntree")


if __name__ == "__main__":
    main()
