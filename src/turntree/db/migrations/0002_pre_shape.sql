-- What the picture of the whole tree reads.

-- A short name of a segment that does not change and is larger than that of its parent: the shape of a tree is sent
-- as numbers, and ids of turns are only ordered by the time at which they were taken.
ALTER TABLE turntree.segments ADD COLUMN number bigint NOT NULL GENERATED ALWAYS AS IDENTITY;
CREATE UNIQUE INDEX segments_number ON turntree.segments (workspace_id, number);

-- Turns that did not end well are few, and each has a mark.
CREATE INDEX turns_not_completed ON turntree.turns (workspace_id, segment_id, depth) WHERE outcome <> 'completed';
