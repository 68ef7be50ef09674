-- Moving a queue to another storage, or from one: apns-relay move.

CREATE FUNCTION apns.refuse_sealed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF current_setting('apns.moves', true) = 'on' THEN RETURN NULL; END IF;
  RAISE EXCEPTION 'The queue is being moved to another storage, or was moved.' USING ERRCODE = 'AP002',
    HINT = 'Use the new place of the queue. apns-relay move --help says how to finish or cancel a move.';
END $$;

-- Refuses new pushes and claims; with p_frozen all changes of pushes and outcomes. Creating a trigger waits for the
-- transactions that have stored pushes. All later ones meet the trigger. Only the owner may do this.
CREATE FUNCTION apns.seal(p_now bigint, p_keeps boolean, p_frozen boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  -- DROP TRIGGER would wait for readers, too.
  IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = 'apns.push'::regclass AND tgname = 'sealed') THEN
    CREATE TRIGGER sealed BEFORE INSERT ON apns.push FOR EACH STATEMENT EXECUTE FUNCTION apns.refuse_sealed();
    CREATE TRIGGER sealed BEFORE INSERT ON apns.flight FOR EACH STATEMENT EXECUTE FUNCTION apns.refuse_sealed();
  END IF;
  IF NOT p_frozen OR EXISTS (SELECT FROM pg_trigger WHERE tgrelid = 'apns.push'::regclass AND tgname = 'frozen') THEN
    RETURN;
  END IF;
  LOCK TABLE apns.push, apns.outcome IN SHARE ROW EXCLUSIVE MODE;
  PERFORM apns.tend(p_now, p_keeps);
  IF EXISTS (SELECT FROM apns.flight) OR EXISTS (SELECT FROM apns.held) OR EXISTS (SELECT FROM apns.ended) THEN
    RAISE EXCEPTION 'Pushes are still being sent.' USING ERRCODE = '55006';
  END IF;
  CREATE TRIGGER frozen BEFORE UPDATE OR DELETE ON apns.push FOR EACH STATEMENT EXECUTE FUNCTION apns.refuse_sealed();
  CREATE TRIGGER frozen BEFORE INSERT OR UPDATE OR DELETE ON apns.outcome
    FOR EACH STATEMENT EXECUTE FUNCTION apns.refuse_sealed();
END $$;

-- Whether pushes wait for apns.tend.
CREATE FUNCTION apns.needs_tending() RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM apns.held) OR EXISTS (SELECT FROM apns.ended)
$$;

CREATE FUNCTION apns.unseal() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  DROP TRIGGER IF EXISTS sealed ON apns.push;
  DROP TRIGGER IF EXISTS sealed ON apns.flight;
  DROP TRIGGER IF EXISTS frozen ON apns.push;
  DROP TRIGGER IF EXISTS frozen ON apns.outcome;
END $$;

CREATE FUNCTION apns.is_unused() RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT NOT EXISTS (SELECT FROM apns.push) AND NOT EXISTS (SELECT FROM apns.idempotency)
    AND NOT EXISTS (SELECT FROM apns.feed WHERE last <> 0)
$$;

CREATE FUNCTION apns.feed_bounds(OUT next bigint, OUT pruned bigint, OUT histories bigint[], OUT starts bigint[])
LANGUAGE sql STABLE AS $$
  SELECT f.last + 1, f.pruned, (SELECT array_agg(h.id ORDER BY h.ordinal) FROM apns.history h),
    (SELECT array_agg(h.start ORDER BY h.ordinal) FROM apns.history h) FROM apns.feed f
$$;

-- Gives an unused queue the histories of another one. The present history of this server begins anew after them.
CREATE FUNCTION apns.adopt(p_next bigint, p_pruned bigint, p_histories bigint[], p_starts bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_server text := (SELECT h.server FROM apns.history h ORDER BY h.ordinal DESC LIMIT 1);
BEGIN
  UPDATE apns.feed SET last = p_next - 1, pruned = p_pruned;
  DELETE FROM apns.history;
  INSERT INTO apns.history (id, start, server)
  SELECT a.id, a.start, '' FROM unnest(p_histories, p_starts) WITH ORDINALITY AS a(id, start, n) ORDER BY a.n;
  INSERT INTO apns.history (id, start, server)
  VALUES (floor(random() * 4294967294)::bigint + 1, p_next, v_server);
END $$;

-- The pushes without an outcome after a position, in order.
CREATE FUNCTION apns.unsettled_pushes(p_position bigint, p_limit int) RETURNS TABLE (
  "position" bigint, id uuid, app text, environment text, lane smallint, batch uuid, caller text, token bytea, queued_at bigint,
  due bigint, deadline bigint, attempts int, resends boolean, supersedes text, topic text, type text, priority smallint,
  expiration bigint, collapse text, payload bytea, key text, digest bytea, parked bigint, certainty smallint, sends int,
  result jsonb, metadata text
) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT p.position, p.id, r.app, r.environment, r.lane, r.batch, c.name, p.token, p.queued_at, p.due, p.deadline, p.attempts,
    p.resends, p.supersedes, p.topic, p.type, p.priority, p.expiration, p.collapse, p.payload, i.key, i.digest, k.since,
    t.certainty, t.sends, t.result, p.metadata
  FROM (SELECT * FROM apns.push p WHERE p.position > p_position ORDER BY p.position LIMIT p_limit) p
  CROSS JOIN LATERAL (SELECT * FROM apns.route r WHERE r.id = p.route LIMIT 1) r
  CROSS JOIN LATERAL (SELECT * FROM apns.caller c WHERE c.id = r.caller LIMIT 1) c
  LEFT JOIN LATERAL (SELECT * FROM apns.idempotency i WHERE i.position = p.position LIMIT 1) i ON true
  LEFT JOIN LATERAL (SELECT * FROM apns.parked k WHERE k.position = p.position LIMIT 1) k ON true
  LEFT JOIN LATERAL (SELECT * FROM apns.attempt t WHERE t.position = p.position LIMIT 1) t ON true
  ORDER BY p.position;
END $$;

-- The idempotency keys of settled pushes after a position, in order.
CREATE FUNCTION apns.settled_keys(p_position bigint, p_limit int) RETURNS TABLE (
  "position" bigint, caller text, key text, digest bytea, id uuid, settled_at bigint, has_outcome boolean
) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT i.position, c.name, i.key, i.digest, i.id, i.settled_at,
    EXISTS (SELECT FROM apns.ident d WHERE d.id = i.id AND d.position = i.position)
  FROM (SELECT * FROM apns.idempotency i WHERE i.position > p_position AND i.settled_at IS NOT NULL
    ORDER BY i.position LIMIT p_limit) i
  CROSS JOIN LATERAL (SELECT * FROM apns.caller c WHERE c.id = i.caller LIMIT 1) c
  ORDER BY i.position;
END $$;

-- Stores a value. Returns false if it is already stored. Then this is the repetition of a call whose answer was lost.
CREATE FUNCTION apns.begin_part(p_key text, p_value bytea) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('apns.moves', 'on', true);
  INSERT INTO apns.value AS v (key, value) VALUES (p_key, p_value)
  ON CONFLICT (key) DO UPDATE SET value = excluded.value WHERE v.value <> excluded.value;
  RETURN FOUND;
END $$;

CREATE FUNCTION apns.store_outcomes(
  p_key text, p_value bytea, p_cursor bigint[], p_id uuid[], p_route int[], p_queued_at bigint[], p_due bigint[],
  p_deadline bigint[], p_settled_at bigint[], p_token bytea[], p_attempts int[], p_certainty smallint[],
  p_sends int[], p_invalidates boolean[], p_result jsonb[], p_metadata text[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_position bigint[];
BEGIN
  IF NOT apns.begin_part(p_key, p_value) THEN RETURN; END IF;
  SELECT array_agg(nextval('apns.position_seq')) INTO v_position FROM generate_series(1, cardinality(p_id));
  INSERT INTO apns.ident (id, position) SELECT * FROM unnest(p_id, v_position);
  INSERT INTO apns.outcome (cursor, position, id, route, queued_at, due, deadline, settled_at, token, attempts, certainty,
    sends, invalidates, result, metadata)
  SELECT * FROM unnest(p_cursor, v_position, p_id, p_route, p_queued_at, p_due, p_deadline, p_settled_at, p_token,
    p_attempts, p_certainty, p_sends, p_invalidates, p_result, p_metadata);
  INSERT INTO apns.batch_outcome (route, certainty, pushes)
  SELECT a.route, a.certainty, count(*) FROM unnest(p_route, p_certainty) AS a(route, certainty)
  JOIN apns.route r ON r.id = a.route AND r.batch <> '00000000-0000-0000-0000-000000000000'
  GROUP BY a.route, a.certainty;
END $$;

CREATE FUNCTION apns.store_pushes(
  p_key text, p_value bytea, p_id uuid[], p_route int[], p_caller int[], p_queued_at bigint[], p_due bigint[],
  p_deadline bigint[], p_expires bigint[], p_attempts int[], p_resends boolean[], p_supersedes text[], p_token bytea[],
  p_topic text[], p_type text[], p_priority smallint[], p_expiration bigint[], p_collapse text[], p_payload bytea[],
  p_keys text[], p_digests bytea[], p_metadata text[], p_parked bigint[], p_certainty smallint[], p_sends int[], p_invalidates boolean[],
  p_result jsonb[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_position bigint[];
BEGIN
  IF NOT apns.begin_part(p_key, p_value) THEN RETURN; END IF;
  SELECT array_agg(nextval('apns.position_seq')) INTO v_position FROM generate_series(1, cardinality(p_id));
  INSERT INTO apns.ident (id, position) SELECT * FROM unnest(p_id, v_position);
  INSERT INTO apns.push (position, id, route, queued_at, due, deadline, expires, attempts, tried, resends,
    supersedes, token, topic, type, priority, expiration, collapse, payload, metadata)
  SELECT a.position, a.id, a.route, a.queued_at, a.due, a.deadline, a.expires, a.attempts,
    CASE WHEN a.certainty IS NULL THEN 0 WHEN a.certainty = 3 THEN 2 ELSE 1 END, a.resends, a.supersedes, a.token,
    a.topic, a.type, a.priority, a.expiration, a.collapse, a.payload, a.metadata
  FROM unnest(v_position, p_id, p_route, p_queued_at, p_due, p_deadline, p_expires, p_attempts, p_certainty,
    p_resends, p_supersedes, p_token, p_topic, p_type, p_priority, p_expiration, p_collapse, p_payload, p_metadata)
    AS a(position, id, route, queued_at, due, deadline, expires, attempts, certainty, resends, supersedes, token,
      topic, type, priority, expiration, collapse, payload, metadata);
  INSERT INTO apns.idempotency (position, caller, key, digest, id)
  SELECT a.position, a.caller, a.key, a.digest, a.id
  FROM unnest(v_position, p_caller, p_keys, p_digests, p_id) AS a(position, caller, key, digest, id)
  WHERE a.key IS NOT NULL;
  INSERT INTO apns.attempt (position, certainty, sends, invalidates, result)
  SELECT a.position, a.certainty, a.sends, a.invalidates, a.result
  FROM unnest(v_position, p_certainty, p_sends, p_invalidates, p_result)
    AS a(position, certainty, sends, invalidates, result)
  WHERE a.certainty IS NOT NULL;
  INSERT INTO apns.parked (position, route, since)
  SELECT a.position, a.route, a.since FROM unnest(v_position, p_route, p_parked) AS a(position, route, since)
  WHERE a.since IS NOT NULL;
  INSERT INTO apns.queue (route, due, position, expires)
  SELECT a.route, a.due, a.position, a.expires
  FROM unnest(v_position, p_route, p_due, p_expires, p_parked) AS a(position, route, due, expires, since)
  WHERE a.since IS NULL;
  INSERT INTO apns.tally (route, queued, parked)
  SELECT a.route, count(*) FILTER (WHERE a.since IS NULL), count(*) FILTER (WHERE a.since IS NOT NULL)
  FROM unnest(p_route, p_parked) AS a(route, since) GROUP BY a.route;
END $$;

CREATE FUNCTION apns.store_keys(
  p_key text, p_value bytea, p_caller int[], p_keys text[], p_digests bytea[], p_id uuid[], p_settled_at bigint[],
  p_has_outcome boolean[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF NOT apns.begin_part(p_key, p_value) THEN RETURN; END IF;
  INSERT INTO apns.idempotency (position, caller, key, digest, id, settled_at)
  SELECT coalesce(i.position, nextval('apns.position_seq')), a.caller, a.key, a.digest, a.id, a.settled_at
  FROM unnest(p_caller, p_keys, p_digests, p_id, p_settled_at, p_has_outcome)
    AS a(caller, key, digest, id, settled_at, has_outcome)
  LEFT JOIN LATERAL (SELECT * FROM apns.ident i WHERE a.has_outcome AND i.id = a.id LIMIT 1) i ON true;
END $$;

DO $$
DECLARE
  v_function regprocedure;
BEGIN
  FOR v_function IN
    SELECT oid FROM pg_proc WHERE pronamespace = 'apns'::regnamespace AND proname IN ('refuse_sealed', 'seal', 'unseal', 'needs_tending',
      'is_unused', 'feed_bounds', 'adopt', 'unsettled_pushes', 'settled_keys', 'begin_part', 'store_outcomes',
      'store_pushes', 'store_keys')
  LOOP
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', v_function);
    CONTINUE WHEN v_function::text !~ '^apns\.(unsettled_pushes|settled_keys|store_outcomes|store_pushes|store_keys)\(';
    EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan '
      'SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off', v_function);
  END LOOP;
END $$;
