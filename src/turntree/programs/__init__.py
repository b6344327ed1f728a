"""Programs: the registry, kinds, lifecycles and references."""
