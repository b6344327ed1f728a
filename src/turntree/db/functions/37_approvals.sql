-- What people may do. A person's config may list permissions: approve, assign, configure. If it does, the person
-- assigns and configures with those only. A person who was asked for an approval may always answer for themselves.

-- Returns the permissions in a person's config. Runs as the searcher: a config that is hidden from the person it
-- describes still counts.
CREATE OR REPLACE FUNCTION turntree.permissions_of(p_ws uuid, p_person uuid) RETURNS jsonb LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, turntree, pg_temp AS $$
  SELECT nullif(convert_from(o.bytes, 'UTF8')::jsonb -> 'permissions', 'null') FROM turntree.programs x
    JOIN turntree.program_versions v ON v.workspace_id = x.workspace_id AND v.program_id = x.id AND v.version = x.version
    JOIN turntree.objects o ON o.workspace_id = v.workspace_id AND o.digest = v.digest
    WHERE x.workspace_id = p_ws AND x.id = p_person AND x.kind = 'human'
$$;

-- Raises if a person's config lists permissions but not this one. The owner of their own entry may always change it.
CREATE OR REPLACE FUNCTION turntree.require_permission(p_ws uuid, p_by text, p_permission text, p_program uuid)
RETURNS void LANGUAGE plpgsql STABLE AS $$
DECLARE
  p record;
BEGIN
  SELECT x.id, x.name, x.owner, c.permissions || to_jsonb(p_permission) AS permissions
    INTO p FROM turntree.programs x CROSS JOIN LATERAL turntree.permissions_of(p_ws, x.id) c (permissions)
    WHERE x.workspace_id = p_ws AND x.name = substring(p_by FROM '^human:(.*)$') AND x.kind = 'human'
      AND NOT coalesce(c.permissions, to_jsonb(ARRAY[p_permission])) ? p_permission;
  IF FOUND AND NOT (p.id = p_program AND p.owner = p_by) THEN
    RAISE EXCEPTION '% lacks the permission %, which % can give', p_by, p_permission, p.owner USING ERRCODE = '42501',
      DETAIL = jsonb_build_object('hint', jsonb_build_object(
        'action', 'human.permit', 'human', p.name, 'permission', p.permissions))::text;
  END IF;
END $$;

-- Approvals: who may answer for a person, and only once. A person's details hold the pending requests. They are
-- compared while the person's row is locked, so that of two concurrent requests or answers the second one fails.

-- Whether a principal's config lists a permission and another principal owns that config: people cannot make
-- themselves approvers.
CREATE OR REPLACE FUNCTION turntree.was_granted(p_ws uuid, p_by text, p_permission text) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM turntree.programs p
    WHERE p.workspace_id = p_ws AND p.kind = 'human' AND 'human:' || p.name = p_by AND p.owner <> p_by
      AND turntree.permissions_of(p_ws, p.id) ? p_permission)
$$;

-- Raises if an approval event is not valid: an answer by a principal who was not asked, a second answer, too many
-- requests of one principal, or a request or answer that would overwrite a concurrent one.
CREATE OR REPLACE FUNCTION turntree.check_approval(
  p_ws uuid, p_person uuid, p_name text, p_details jsonb, p_event text, p_data jsonb, p_sets jsonb, p_by text)
RETURNS void LANGUAGE plpgsql STABLE AS $$
DECLARE
  v_request constant text := p_data ->> 'request';
  v_waiting constant jsonb := coalesce(p_details -> 'pending', '{}');
  v_max constant int := 20; -- Of each sender, so that nobody who asks too much keeps others from asking.
  v_first jsonb;
  v_verb text;
BEGIN
  IF p_event = 'human.approval_requested' THEN
    IF (p_sets -> 'request_count')::int IS DISTINCT FROM coalesce((p_details -> 'request_count')::int, 0) + 1
        OR p_sets -> 'pending' IS DISTINCT FROM v_waiting || jsonb_build_object(v_request, p_data -> 'question') THEN
      RAISE EXCEPTION '% was asked something else meanwhile', p_name USING ERRCODE = 'TT001';
    ELSIF (SELECT count(*) FROM jsonb_object_keys(v_waiting)) >= v_max AND (SELECT count(*) FROM turntree.events e,
        LATERAL (SELECT turntree.document(e.body) -> 'data' AS j) d WHERE e.workspace_id = p_ws AND e.stream_id = p_person
          AND e.kind = 'human.approval_requested' AND d.j ->> 'by' = p_by AND v_waiting ? (d.j ->> 'request')) >= v_max THEN
      RAISE EXCEPTION '% requests of % wait for @(%) already: let them be answered first', v_max, p_by, p_name USING ERRCODE = 'TT003',
        DETAIL = jsonb_build_object('hint', jsonb_build_object('action', 'program.show', 'kind', 'human', 'program', p_name))::text;
    END IF;
    RETURN;
  END IF;
  IF p_by <> 'human:' || p_name AND NOT turntree.was_granted(p_ws, p_by, 'approve') THEN
    RAISE EXCEPTION '% cannot answer for @(%): only human:% can, or an approver whom another principal appointed',
      p_by, p_name, p_name USING ERRCODE = '42501',
      DETAIL = jsonb_build_object('hint', jsonb_build_object('action', 'human.create_approver'))::text;
  ELSIF NOT v_waiting ? v_request THEN
    SELECT CASE e.kind WHEN 'human.approved' THEN 'approved' ELSE 'rejected' END, turntree.document(e.body)
      INTO v_verb, v_first FROM turntree.events e
      WHERE e.workspace_id = p_ws AND e.stream_id = p_person AND e.kind IN ('human.approved', 'human.rejected')
        AND turntree.document(e.body) #>> '{data,request}' = v_request ORDER BY e.seq LIMIT 1;
    IF v_first IS NULL THEN
      RAISE EXCEPTION '@(%) was not asked for %', p_name, v_request USING ERRCODE = 'TT002',
        DETAIL = jsonb_build_object('hint', jsonb_build_object(
          'action', 'program.show', 'kind', 'human', 'program', p_name))::text;
    END IF;
    RAISE EXCEPTION '% was answered already: % % it at %', v_request, v_first #>> '{data,by}', v_verb, v_first ->> 'at'
      USING ERRCODE = 'TT003';
  ELSIF p_data -> 'question' IS DISTINCT FROM v_waiting -> v_request
      OR coalesce(nullif(p_sets -> 'pending', 'null'), '{}') IS DISTINCT FROM v_waiting - v_request THEN
    RAISE EXCEPTION '% was asked something else meanwhile', p_name USING ERRCODE = 'TT001';
  END IF;
END $$;
