"""Webhooks: events and notices that leave by signed requests, to addresses that people chose."""
