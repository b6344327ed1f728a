"""What neighbours must look like: Protocols of at most nine methods, and nothing else."""
