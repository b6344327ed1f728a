"""Engines that wake sessions: inline and DBOS."""
