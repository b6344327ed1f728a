-- The slots that a database holds, as of the shard map it was first opened with; null before that. A map that names it for
-- other slots is refused: workspaces would be looked up, and created, in the wrong database.
ALTER TABLE turntree.shard ADD COLUMN slots text CHECK (slots ~ '^[0-9]+-[0-9]+(, [0-9]+-[0-9]+)*$');
