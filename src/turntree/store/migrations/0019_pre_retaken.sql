-- How often a call that had begun was taken over from a worker that was gone, by the call's id. Beside the journal, not in
-- it: a run that was taken over leaves the same facts as one that was not. Null in nearly every run.
ALTER TABLE turntree.runs ADD COLUMN retaken jsonb;
