"""Taking turns back while the database is stopped: from files of this machine alone."""
