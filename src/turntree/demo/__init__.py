"""Sample data: a believable history for people who want to explore first."""
