-- What was erased is told by nothing else: the paths that a message named go with it, and so do the titles of the transcripts
-- that its turn came from, which may be its first words.

-- The one change the files of a message may undergo.
CREATE FUNCTION turntree.check_file_erasure() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF current_user <> 'turntree_eraser' THEN
    RAISE EXCEPTION 'facts are permanent: message_files refuses update' USING ERRCODE = 'TT003';
  END IF;
  IF NEW.path <> '(erased)' OR (NEW.workspace_id, NEW.turn_id, NEW.message, NEW.sequence, NEW.kind)
      IS DISTINCT FROM (OLD.workspace_id, OLD.turn_id, OLD.message, OLD.sequence, OLD.kind) THEN
    RAISE EXCEPTION 'an erasure takes out paths and nothing else' USING ERRCODE = 'TT003';
  END IF;
  RETURN NEW;
END $$;
DROP TRIGGER refuse_update ON turntree.message_files;
CREATE TRIGGER refuse_update BEFORE UPDATE ON turntree.message_files FOR EACH ROW
  EXECUTE FUNCTION turntree.check_file_erasure();
GRANT SELECT ON turntree.message_files TO turntree_eraser;
GRANT UPDATE (path) ON turntree.message_files TO turntree_eraser;
GRANT UPDATE (heads) ON turntree.imports TO turntree_eraser;
