"""Where the time, new ids and chance come from."""
