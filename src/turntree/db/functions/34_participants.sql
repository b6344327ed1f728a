-- Who reads a conversation, and with it the sessions in which its agents answer. Access follows the conversation by
-- reference and is copied nowhere: a participant who was removed reads nothing more, in no session and no fork.

-- Whether access to a program was granted to a principal by name.
CREATE OR REPLACE FUNCTION turntree.has_grant(p_ws uuid, p_program uuid, p_by text, p_right text) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM turntree.program_grants g
    WHERE g.workspace_id = p_ws AND g.program_id = p_program AND g.grantee = p_by AND CASE p_right
      WHEN 'read' THEN true WHEN 'invoke' THEN g.access <> 'read' ELSE g.access = 'configure' END)
$$;

-- Whether a principal takes part in a conversation now. An agent that acts for a person does if both do.
CREATE OR REPLACE FUNCTION turntree.takes_part(p_ws uuid, p_conversation uuid, p_by text) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT count(*) = cardinality(w.who) FROM turntree.participants x,
      (SELECT CASE WHEN p_by LIKE '% for %' THEN ARRAY[substring(p_by FROM '^(.*) for .*$'), turntree.person_behind(p_by)]
        ELSE ARRAY[p_by] END AS who) w
    WHERE x.workspace_id = p_ws AND x.conversation_id = p_conversation AND x.removed_at IS NULL AND x.principal = ANY (w.who)
    GROUP BY w.who
$$;

-- Whether a principal has access to a private conversation, or to a session that is bound to one; null for any other
-- program. The owner of such a session is the system: a person who forks it and is then removed keeps nothing. Each row of
-- a conversation that a policy looks at comes here, so that it asks for both at once.
DROP FUNCTION IF EXISTS turntree.has_shared_access(uuid, uuid, text, text, text); -- earlier releases named the owner
CREATE OR REPLACE FUNCTION turntree.has_shared_access(p_ws uuid, p_program uuid, p_by text, p_right text)
RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE
  c record;
  v_right text := p_right;
BEGIN
  SELECT x.id, x.parent_id, p.owner, p.visibility INTO c FROM turntree.conversations x
    JOIN turntree.programs p ON p.workspace_id = p_ws AND p.id = x.id
    WHERE x.workspace_id = p_ws AND x.id = coalesce((SELECT b.conversation_id FROM turntree.bound_sessions b
      WHERE b.workspace_id = p_ws AND b.session_id = p_program), p_program);
  IF NOT FOUND THEN
    RETURN NULL;
  ELSIF c.id <> p_program THEN
    IF p_right = 'configure' AND NOT turntree.has_grant(p_ws, p_program, p_by, 'configure') THEN
      RETURN false;
    ELSIF c.visibility = 'public' THEN
      RETURN true;
    END IF;
    v_right := CASE p_right WHEN 'read' THEN 'read' ELSE 'invoke' END;
  END IF;
  IF NOT (coalesce(p_by = c.owner, false) OR turntree.has_grant(p_ws, c.id, p_by, v_right)
      OR v_right <> 'configure' AND coalesce(turntree.takes_part(p_ws, c.id, p_by), false)) THEN
    RETURN false;
  ELSIF c.parent_id IS NULL THEN
    RETURN true;
  END IF;
  -- A fork shows what was said before it: to those who may read it where it was said.
  SELECT p.id, p.owner, p.visibility INTO c FROM turntree.programs p WHERE p.workspace_id = p_ws AND p.id = c.parent_id;
  RETURN NOT FOUND OR turntree.has_program_access(p_ws, c.id, c.owner, c.visibility, p_by, 'read');
END $$;

-- Raises if who sees a program is decided elsewhere: of a session by its conversation, of the fork of a conversation by
-- who may read what was said before.
CREATE OR REPLACE FUNCTION turntree.refuse_bound(p_ws uuid, p_program uuid, p_name text, p_publishes boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_conversation text;
BEGIN
  SELECT p.name INTO v_conversation FROM turntree.bound_sessions b
    JOIN turntree.programs p ON p.workspace_id = p_ws AND p.id = b.conversation_id
    WHERE b.workspace_id = p_ws AND b.session_id = p_program;
  IF FOUND THEN
    RAISE EXCEPTION '% belongs to the conversation %: its participants see it', p_name, v_conversation USING ERRCODE = 'TT003';
  ELSIF p_publishes AND EXISTS (SELECT FROM turntree.conversations c
      WHERE c.workspace_id = p_ws AND c.id = p_program AND c.parent_id IS NOT NULL) THEN
    RAISE EXCEPTION '% shows what was said in another conversation, and stays private', p_name USING ERRCODE = 'TT003';
  END IF;
END $$;

-- Raises if an agent answers in a session what is said in a conversation: nothing else is said to it, and no other hand
-- moves it. A fork of such a session is free.
CREATE OR REPLACE FUNCTION turntree.refuse_bound_session(p_ws uuid, p_session uuid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  b record;
BEGIN
  IF turntree.viewer() LIKE 'system:%' THEN
    RETURN;
  END IF;
  SELECT x.agent, p.name INTO b FROM turntree.bound_sessions x JOIN turntree.programs p ON p.workspace_id = p_ws AND p.id = x.conversation_id
    WHERE x.workspace_id = p_ws AND x.session_id = p_session AND x.agent IS NOT NULL;
  IF FOUND THEN
    RAISE EXCEPTION 'in this session, @(%) answers what is said in the conversation %: say it there, or fork the session', b.agent, b.name
      USING ERRCODE = 'TT003', DETAIL = jsonb_build_object('hint', jsonb_build_object('action', 'conversation.post', 'conversation', b.name))::text;
  END IF;
END $$;
