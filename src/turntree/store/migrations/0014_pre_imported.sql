-- Everything that this upgrade changes, here, in the next files and by functions/36_visibility.sql, is locked before any of the
-- work is done. Who writes meanwhile may hold one table and want another: then all are let go and asked for anew, so that
-- neither of the two has to fail.
DO $$
DECLARE
  v_before constant text := current_setting('lock_timeout');
BEGIN
  LOOP
    BEGIN
      PERFORM set_config('lock_timeout', '500ms', true);
      LOCK TABLE turntree.programs, turntree.sessions, turntree.session_names, turntree.turns, turntree.message_files,
        turntree.session_history, turntree.spawns, turntree.tags, turntree.resource_attachments, turntree.turn_resources,
        turntree.raw_blocks, turntree.inbox, turntree.events IN ACCESS EXCLUSIVE MODE;
      EXIT;
    EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
      PERFORM pg_sleep(0.1);
    END;
  END LOOP;
  PERFORM set_config('lock_timeout', v_before, true);
END $$;

-- Records that we wrote ourselves, into a session of another tool that came home since: a copy of a thread that
-- is stored already. planted is the turn that this thread ends in, and written holds two numbers for each stretch
-- of such records in the block, those of its first and its last. Whoever erases a message of the thread takes
-- them out too. Of blocks that were kept before this was noted, nobody knows.
ALTER TABLE turntree.raw_blocks
  ADD COLUMN written int[] NOT NULL DEFAULT '{}',
  ADD COLUMN planted uuid,
  ADD FOREIGN KEY (workspace_id, planted) REFERENCES turntree.turns,
  ADD CHECK ((planted IS NULL) = (cardinality(written) = 0)),
  ADD CHECK (cardinality(written) % 2 = 0);
CREATE INDEX raw_blocks_planted ON turntree.raw_blocks (workspace_id, planted) WHERE planted IS NOT NULL;

-- Few messages are ever erased, and every import asks which.
CREATE INDEX events_erasures ON turntree.events (workspace_id, stream_id) WHERE kind = 'message.erased';

-- Whoever erases has to know which threads a turn belongs to.
GRANT SELECT ON turntree.turns, turntree.segments TO turntree_eraser;
