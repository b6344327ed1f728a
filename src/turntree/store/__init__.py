"""Durable facts on PostgreSQL: knows SQL, and never a model or HTTP."""
