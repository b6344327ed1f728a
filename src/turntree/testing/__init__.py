"""Public test tools for third-party plugins and programs."""
