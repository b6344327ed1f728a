"""Runs: the inbox, the session loop, the runner, engines, live stream, replay, rerun."""
