-- Roles and the schema. Roles belong to the whole cluster, so they may already exist.
--
-- turntree_app       what every process acts as: reads and appends, never changes a fact
-- turntree_reader    people and dashboards: reads, under row-level security
-- turntree_importer  bulk COPY, which row-level security refuses; a trigger checks its workspace
-- turntree_eraser    replaces a message by its stub on request; may do nothing else
DO $$
DECLARE
  v_role text;
  -- Since 16 one may be a member of a role, or its maker, and still not be let in.
  v_way_in text := CASE WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER' END;
BEGIN
  FOREACH v_role IN ARRAY ARRAY['turntree_app', 'turntree_reader', 'turntree_importer', 'turntree_eraser'] LOOP
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = v_role) THEN
      EXECUTE format('CREATE ROLE %I NOLOGIN NOSUPERUSER NOBYPASSRLS', v_role);
    END IF;
  END LOOP;
  -- Only a superuser may hand out BYPASSRLS; where none is at hand, imports go through staging
  -- tables instead, a little slower. Anybody else must be let into the roles to act as them; whoever
  -- was let in already may lack the right to let anybody in, and has no need of it.
  IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
    -- Only once: two databases that alter one role at the same moment do not wait but fail.
    IF NOT (SELECT rolbypassrls FROM pg_roles WHERE rolname = 'turntree_importer') THEN
      ALTER ROLE turntree_importer BYPASSRLS;
    END IF;
  ELSE
    FOREACH v_role IN ARRAY ARRAY['turntree_app', 'turntree_reader', 'turntree_importer', 'turntree_eraser'] LOOP
      IF NOT pg_has_role(current_user, v_role, v_way_in) THEN
        EXECUTE format('GRANT %I TO CURRENT_USER', v_role);
      END IF;
    END LOOP;
  END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
  NULL; -- Another database of the same cluster is being set up at this moment.
END $$;

CREATE SCHEMA turntree;
GRANT USAGE ON SCHEMA turntree TO turntree_app, turntree_reader, turntree_importer, turntree_eraser;

-- One row: which life of this database the feed's positions belong to.
CREATE TABLE turntree.shard (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  epoch int NOT NULL DEFAULT 1,
  system_identifier bigint NOT NULL
);
INSERT INTO turntree.shard (system_identifier) SELECT system_identifier FROM pg_control_system();

CREATE TABLE turntree.workspaces (
  id uuid PRIMARY KEY,
  name text NOT NULL UNIQUE,
  created_at timestamptz NOT NULL DEFAULT now()
);
