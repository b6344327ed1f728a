"""The neighbours: a folder per port, a file per adapter. No adapter imports another."""
