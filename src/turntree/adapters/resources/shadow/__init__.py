"""The shadow store: states of files, kept by content, beside the ledger and any repository.

It knows files, trees of files, and how to keep both so that what is equal is kept once. It must
never know turns, sessions or a database. A hook takes snapshots with it while an agent waits, so
it is built on the standard library and ``zstandard`` alone, and imports nothing that loads slowly.
"""
