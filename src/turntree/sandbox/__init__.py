"""Run untrusted code: bubblewrap, seccomp and cgroups."""
