"""Plans that fork and restore resources, all steps or none."""
