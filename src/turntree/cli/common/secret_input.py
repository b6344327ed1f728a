"""Reads a secret without showing it: not on the screen, and in no list of processes."""

import sys

import click


def read_secret(name: str, *, confirms: bool = False) -> str:
    """Return a secret that is typed in, or the first line of an input that is no terminal."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    typed: str = click.prompt(name, hide_input=True, confirmation_prompt=confirms, err=True)
    return typed
