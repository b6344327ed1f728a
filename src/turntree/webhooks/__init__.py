"""Webhooks: events and notices that leave by signed HTTP requests, to addresses that people chose."""
