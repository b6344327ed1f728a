"""Tools with which an agent works in a folder: files and commands, inside a sandbox profile."""
