"""The clock and the processes of this machine."""
