"""Notifications: the inbox of a person, and the channels by which its notices leave."""
