"""A model server that speaks the vendors' protocols and follows a script."""
