"""Services that answer for models."""
