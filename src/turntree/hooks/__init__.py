"""Install hooks in coding agents, spool what they report and reconcile it."""
