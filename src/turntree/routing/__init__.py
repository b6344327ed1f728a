"""Where a message goes: targets, routes and matching."""
