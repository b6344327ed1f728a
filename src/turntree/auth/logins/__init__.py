"""Login sessions: browsers in which people have logged in to a server."""
