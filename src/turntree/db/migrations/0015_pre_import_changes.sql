-- When an import last wrote what its tool says of its sessions. Another title is no event, so nothing else tells a process
-- that keeps the list of sessions that another process changed one.
ALTER TABLE turntree.import_cursors ADD COLUMN written_by xid8 NOT NULL DEFAULT pg_current_xact_id();
CREATE INDEX import_changes ON turntree.import_cursors (workspace_id, written_by);
CREATE FUNCTION turntree.note_import_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.written_by := pg_current_xact_id();
  RETURN NEW;
END $$;
-- A trigger, because processes of the previous release write here too.
CREATE TRIGGER note_import_change BEFORE INSERT OR UPDATE ON turntree.import_cursors FOR EACH ROW
  EXECUTE FUNCTION turntree.note_import_change();
