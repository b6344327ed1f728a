"""The snapshot store: capture, restore, gc, verify and repair."""
