"""Drivers, one per kind of resource."""
