"""The HTTP API and the page that shows it, for one local user."""
