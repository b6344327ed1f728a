"""Values that travel between the server and its clients."""
