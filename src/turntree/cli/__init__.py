"""The command line: reads the environment, calls the door, prints."""
