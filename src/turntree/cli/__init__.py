"""The command line: read the environment, call the API, print the result."""
