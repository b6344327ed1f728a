"""Lists of prices."""
