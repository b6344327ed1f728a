-- Subagents that a run spawns here.

-- A tool call spawns a session while its run is open, so the turn that the spawn names may not be sealed yet. fsck
-- checks that it is, once the run has finished.
ALTER TABLE turntree.spawns DROP CONSTRAINT spawns_workspace_id_parent_turn_id_fkey;
