"""Wire the parts together: settings, plugins, the open ledger and the worker."""
