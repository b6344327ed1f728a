"""Identities: accounts at an identity provider with which members log in to a server."""
