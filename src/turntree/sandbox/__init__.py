"""Runs untrusted code: bubblewrap, seccomp and cgroups."""
