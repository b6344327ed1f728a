-- A message that nobody has begun to answer can be taken back. It keeps its place, so that order stays
-- what it was: its run begins as one that is canceled, and nothing is asked or done in it.
ALTER TABLE turntree.inbox ADD COLUMN canceled_at timestamptz, ADD COLUMN canceled_by text;
CREATE INDEX inbox_waiting_runs ON turntree.inbox (workspace_id, run_id) WHERE payload IS NOT NULL;
