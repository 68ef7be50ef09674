-- The queue: its tables, and the functions that relays call.
--
-- A relay changes the queue only through these functions, each in a transaction of its own. So one round trip does the
-- whole of a change, nothing depends on statements that a session has prepared, and an operator can read here what a
-- relay does.
--
-- Two rules hold in all functions:
-- * Rows are found by index, one after the other, in a fixed order: an array with ANY, or LATERAL with LIMIT. Statistics
--   of tables that are almost empty lead the planner to joins that take minutes once the tables are full.
-- * Times are milliseconds since 1970. Leases count by the clock of the database: apns.lease_clock.
--
-- The lock order: a transaction waits for others only at these locks, and takes them in this order.
-- 1. In apns.store: the advisory lock of the capacity, then new ids in their order, then new idempotency keys in theirs.
-- 2. The places of pushes: their rows in queue, flight and parked, by position. Whoever has taken the place of a push
--    changes its other rows without waiting. Places that are found by another order are taken with SKIP LOCKED, which
--    waits for nobody; so are the rows of ended and tally.
-- 3. The row of apns.feed, last, because all relays wait for it from then to the commit.
-- Known ids and keys, repeated calls, outcomes of claims that have ended, and apns.begin_history may break the order. If
-- two such transactions wait for each other, the server ends one of them, and its relay repeats it.
-- Tests record the order of all other transactions (Relay/Tests/PostgresPushQueueTests/record-locks.sql).

-- A relay that does not know this version of the schema must not use it.
CREATE TABLE apns.version (version int NOT NULL);
INSERT INTO apns.version VALUES (1);

CREATE TABLE apns.caller (
  id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text NOT NULL UNIQUE
);

-- Pushes and outcomes have their app, environment, lane, caller and batch by way of their route.
CREATE TABLE apns.route (
  id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  app text NOT NULL,
  environment text NOT NULL,
  lane smallint NOT NULL CHECK (lane IN (0, 1)), -- 0 interactive, 1 bulk
  caller int NOT NULL,
  batch uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000', -- zeros: none
  UNIQUE (app, environment, lane, caller, batch)
);
CREATE INDEX route_caller ON apns.route (caller);

CREATE SEQUENCE apns.position_seq;
CREATE SEQUENCE apns.epoch_seq;

-- The position of each push, with and without an outcome. A row stays until the push is pruned, so an id is unique.
CREATE TABLE apns.ident (id uuid PRIMARY KEY, position bigint NOT NULL);

-- Pushes without an outcome. A row is wide, so it is only changed when its push returns to the queue or is retried.
-- Each has a row in one of queue, flight, parked and ended, which say where the push is.
CREATE TABLE apns.push (
  position bigint PRIMARY KEY,
  id uuid NOT NULL,
  route int NOT NULL,
  queued_at bigint NOT NULL,
  due bigint NOT NULL,
  deadline bigint NOT NULL,
  expires bigint NOT NULL, -- the earlier one of the deadline and the expiration
  attempts int NOT NULL DEFAULT 0, -- the earlier marks as written
  tried smallint NOT NULL DEFAULT 0, -- 0 has no row in attempt, 1 has one, 2 may have been processed
  resends boolean NOT NULL,
  supersedes text,
  subject bigint, -- with a supersede key: apns.subject of the push
  token bytea NOT NULL,
  topic text NOT NULL,
  type text NOT NULL,
  priority smallint,
  expiration bigint,
  collapse text,
  payload bytea NOT NULL,
  metadata text -- of its owner: the text of a JSON object
);
CREATE INDEX push_subject ON apns.push (subject, position) WHERE subject IS NOT NULL;

-- Queued pushes in the order in which they become due: 0 for a push that another program has stored without a time.
CREATE TABLE apns.queue (
  route int NOT NULL,
  due bigint NOT NULL,
  position bigint NOT NULL,
  expires bigint NOT NULL,
  subject bigint, -- that of the push
  PRIMARY KEY (route, due, position)
);
CREATE INDEX queue_expires ON apns.queue (expires);

-- Claimed and written pushes. An epoch belongs to one claim of one push. No index has the columns that a mark changes, so
-- that a mark changes the row in place.
CREATE TABLE apns.flight (
  position bigint PRIMARY KEY,
  epoch bigint NOT NULL,
  route int NOT NULL,
  state smallint NOT NULL, -- 1 claimed, 2 written
  lease bigint NOT NULL, -- its end
  mark bigint, -- the call that has marked it
  subject bigint -- that of the push
) WITH (fillfactor = 50);
CREATE INDEX flight_subject ON apns.flight (subject, position) WHERE subject IS NOT NULL;

CREATE TABLE apns.parked (position bigint PRIMARY KEY, route int NOT NULL, since bigint NOT NULL);
CREATE INDEX parked_since ON apns.parked (since);

-- An outcome: certainty is 0 not sent, 1 not processed, 2 rejected, 3 unknown, 4 accepted; a larger one is stronger.
-- result is the coded form of the outcome. It is NULL if the push was accepted and the response has nothing but its id;
-- then sends is the number of attempts.

-- The outcome of the attempts of a push that has returned to the queue or was parked.
CREATE TABLE apns.attempt (
  position bigint PRIMARY KEY,
  certainty smallint NOT NULL,
  sends int NOT NULL,
  invalidates boolean NOT NULL,
  result jsonb
);

-- Pushes that have an outcome which is not in the feed yet. Only while a call runs, except after a fault.
CREATE TABLE apns.ended (
  position bigint PRIMARY KEY,
  marks smallint NOT NULL, -- the marks to add to the push's attempts
  certainty smallint NOT NULL,
  sends int NOT NULL,
  invalidates boolean NOT NULL,
  result jsonb
);

-- Settled pushes in the order of the feed.
CREATE TABLE apns.outcome (
  cursor bigint PRIMARY KEY,
  position bigint NOT NULL UNIQUE,
  id uuid NOT NULL,
  route int NOT NULL,
  queued_at bigint NOT NULL,
  due bigint NOT NULL,
  deadline bigint NOT NULL,
  settled_at bigint NOT NULL,
  token bytea NOT NULL,
  attempts int NOT NULL,
  sends int NOT NULL,
  certainty smallint NOT NULL,
  invalidates boolean NOT NULL,
  result jsonb,
  metadata text
);
CREATE INDEX outcome_invalidates ON apns.outcome (cursor) WHERE invalidates;

CREATE TABLE apns.idempotency (
  position bigint PRIMARY KEY,
  caller int NOT NULL,
  key text NOT NULL,
  digest bytea NOT NULL,
  id uuid NOT NULL,
  settled_at bigint, -- NULL while the push has no outcome
  UNIQUE (caller, key)
);
CREATE INDEX idempotency_settled ON apns.idempotency (settled_at) WHERE settled_at IS NOT NULL;

-- The end of the feed. One row, so that cursors have no gap that a reader could skip.
CREATE TABLE apns.feed (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  last bigint NOT NULL, -- the last cursor
  pruned bigint NOT NULL -- the last cursor that was deleted
) WITH (fillfactor = 10);
INSERT INTO apns.feed (last, pruned) VALUES (0, 0);

-- The histories of this database: one more after each restore or promotion of a standby.
CREATE TABLE apns.history (
  ordinal int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id bigint NOT NULL, -- random
  start bigint NOT NULL, -- its first cursor
  server text NOT NULL -- identifies the database and its timeline
);

-- How many pushes each route has in each state: the sum of all rows. Each change adds a row, so that changes do not wait
-- for each other; apns.tend adds rows up.
CREATE TABLE apns.tally (
  route int NOT NULL,
  queued bigint NOT NULL DEFAULT 0,
  claimed bigint NOT NULL DEFAULT 0,
  written bigint NOT NULL DEFAULT 0,
  parked bigint NOT NULL DEFAULT 0
);

-- How many pushes of each batch have an outcome with each certainty: the sum of all rows, as in tally.
CREATE TABLE apns.batch_outcome (
  route int NOT NULL, certainty smallint NOT NULL, invalidates boolean NOT NULL, pushes bigint NOT NULL
);
CREATE INDEX batch_outcome_route ON apns.batch_outcome (route);

-- For the check of the storage: a row that is written and not read.
CREATE TABLE apns.probe (one boolean PRIMARY KEY DEFAULT true CHECK (one), written_at bigint NOT NULL);

CREATE TABLE apns.value (key text COLLATE "C" PRIMARY KEY, value bytea NOT NULL);

-- Queues need more frequent cleaning than other tables.
ALTER TABLE apns.push SET (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0,
  autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 500000,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000000);
ALTER TABLE apns.queue SET (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000000);
ALTER TABLE apns.flight SET (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000000);
ALTER TABLE apns.tally SET (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000000);

-- Durability ---------------------------------------------------------------------------------------------------------

-- Lets the commit wait for synchronous standbys, as that of a change does. Each function that finds its effect made, or
-- something instead of it, calls this before anybody is told: after a crash, the server shows what no standby has.
CREATE FUNCTION apns.confirm() RETURNS void LANGUAGE sql VOLATILE AS $$
  SELECT pg_logical_emit_message(true, 'apns', '')
$$;

-- Outcomes -----------------------------------------------------------------------------------------------------------

CREATE FUNCTION apns.failure(p_certainty text, p_code text, p_id uuid, p_attempts int, p_message text) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
  SELECT jsonb_build_object('outcome', p_certainty, 'error', jsonb_build_object(
    'code', p_code, 'certainty', p_certainty, 'attempts', p_attempts, 'message', p_message, 'apnsID', p_id))
$$;

CREATE FUNCTION apns.superseded(p_id uuid, p_attempts int) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT apns.failure('not-sent', 'superseded', p_id, p_attempts, 'a newer push with the same key replaced it')
$$;

CREATE FUNCTION apns.cancelled(p_id uuid, p_attempts int) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT apns.failure('not-sent', 'cancelled', p_id, p_attempts, 'the push was cancelled')
$$;

CREATE FUNCTION apns.lost(p_id uuid, p_attempts int) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT apns.failure('unknown', 'connectionLost', p_id, p_attempts,
    'the process that was sending the push ended before the outcome was stored')
$$;

CREATE FUNCTION apns.overdue(p_id uuid, p_attempts int, p_deadline bigint, p_expiration bigint) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN p_expiration <> 0 AND p_expiration::numeric * 1000 <= p_deadline
    THEN apns.failure('not-sent', 'expired', p_id, p_attempts, 'the push expired before it was sent')
    ELSE apns.failure('not-sent', 'deadlineExceeded', p_id, p_attempts,
      'the deadline passed before the push was sent')
  END
$$;

-- The outcome of several attempts, of which an earlier one had the stronger certainty.
CREATE FUNCTION apns.merged(p_earlier jsonb, p_later jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE
    WHEN p_later #>> '{error,message}' IS NULL
      OR right(p_earlier #>> '{error,message}', length(p_later #>> '{error,message}')) = p_later #>> '{error,message}'
    THEN p_earlier
    ELSE jsonb_set(p_earlier, '{error,message}',
      to_jsonb((p_earlier #>> '{error,message}') || '; after that: ' || (p_later #>> '{error,message}')))
  END
$$;

-- Keeps the outcome of an attempt after which the push does not end. Returns the column tried of the push.
CREATE FUNCTION apns.add_attempt(
  p_position bigint, p_tried smallint, p_certainty smallint, p_sends int, p_invalidates boolean, p_result jsonb
) RETURNS smallint LANGUAGE plpgsql AS $$
DECLARE
  v_certainty smallint;
BEGIN
  IF p_certainty IS NULL THEN RETURN p_tried; END IF;
  INSERT INTO apns.attempt AS a (position, certainty, sends, invalidates, result)
  VALUES (p_position, p_certainty, p_sends, p_invalidates, p_result)
  ON CONFLICT (position) DO UPDATE SET
    certainty = greatest(a.certainty, excluded.certainty),
    sends = CASE WHEN a.certainty > excluded.certainty THEN a.sends ELSE excluded.sends END,
    invalidates = CASE WHEN a.certainty > excluded.certainty THEN a.invalidates ELSE excluded.invalidates END,
    result = CASE WHEN a.certainty > excluded.certainty
      THEN apns.merged(a.result, excluded.result) ELSE excluded.result END
  RETURNING certainty INTO v_certainty;
  RETURN CASE WHEN v_certainty = 3 THEN 2 ELSE 1 END;
END $$;

-- Moves pushes to the feed, in the order of the array. They have left queue, flight, parked and ended.
CREATE FUNCTION apns.finish(p_now bigint, p_ended apns.ended[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_position bigint[] := ARRAY(SELECT e.position FROM unnest(p_ended) e);
  v_base bigint;
BEGIN
  UPDATE apns.feed SET last = last + cardinality(p_ended) RETURNING last - cardinality(p_ended) INTO v_base;
  WITH o AS (
    INSERT INTO apns.outcome (cursor, position, id, route, queued_at, due, deadline, settled_at, token, attempts, sends,
      certainty, invalidates, result, metadata)
    SELECT v_base + e.ordinality, e.position, p.id, p.route, p.queued_at, CASE WHEN p.due > 0 THEN p.due ELSE p.queued_at END,
      p.deadline, p_now, p.token,
      p.attempts + e.marks,
      CASE WHEN t.certainty > e.certainty THEN t.sends ELSE e.sends END,
      CASE WHEN t.certainty > e.certainty THEN t.certainty ELSE e.certainty END,
      CASE WHEN t.certainty > e.certainty THEN t.invalidates ELSE e.invalidates END,
      CASE WHEN t.certainty > e.certainty THEN apns.merged(t.result, e.result) ELSE e.result END, p.metadata
    FROM unnest(p_ended) WITH ORDINALITY e
    CROSS JOIN LATERAL (SELECT * FROM apns.push p WHERE p.position = e.position LIMIT 1) p
    LEFT JOIN LATERAL (
      SELECT * FROM apns.attempt t WHERE p.tried <> 0 AND t.position = e.position LIMIT 1) t ON true
    RETURNING route, certainty, invalidates),
  c AS (SELECT route, certainty, invalidates, count(*) AS pushes FROM o GROUP BY route, certainty, invalidates)
  INSERT INTO apns.batch_outcome (route, certainty, invalidates, pushes)
  SELECT c.route, c.certainty, c.invalidates, c.pushes FROM c
  CROSS JOIN LATERAL (
    SELECT FROM apns.route r WHERE r.id = c.route AND r.batch <> '00000000-0000-0000-0000-000000000000' LIMIT 1) r;
  DELETE FROM apns.push WHERE position = ANY (v_position);
  DELETE FROM apns.attempt WHERE position = ANY (v_position);
  UPDATE apns.idempotency SET settled_at = p_now WHERE position = ANY (v_position);
END $$;

-- Moves all ended pushes to the feed.
CREATE FUNCTION apns.finish_ended(p_now bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_ended apns.ended[];
BEGIN
  LOOP
    WITH d AS (
      DELETE FROM apns.ended e WHERE e.position = ANY (ARRAY(
        SELECT position FROM apns.ended ORDER BY position LIMIT 2000 FOR UPDATE SKIP LOCKED))
      RETURNING e)
    SELECT array_agg(d.e ORDER BY (d.e).position) INTO v_ended FROM d;
    EXIT WHEN v_ended IS NULL;
    PERFORM apns.finish(p_now, v_ended);
  END LOOP;
END $$;

-- Superseding --------------------------------------------------------------------------------------------------------

-- Pushes compete if they have the same supersede key, device token, app and environment. A claim decides: of those that
-- compete, at most one is in flight, and the newest of the others replaces the older ones when its turn comes.

-- A number that competing pushes have in common, for the indexes. Others may have it, too.
CREATE FUNCTION apns.subject(p_route int, p_supersedes text, p_token bytea) RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT hashtextextended(json_build_array(r.app, r.environment, p_supersedes, encode(p_token, 'hex'))::text, 0)
  FROM apns.route r WHERE r.id = p_route
$$;

-- Some of the pushes that compete with a push, without those that have an outcome.
CREATE FUNCTION apns.rivals(p_position bigint, p_is_newer boolean, p_limit int) RETURNS SETOF apns.push LANGUAGE plpgsql AS $$
BEGIN
  RETURN QUERY
  SELECT o.* FROM apns.push p
  CROSS JOIN LATERAL (SELECT * FROM apns.route r WHERE r.id = p.route LIMIT 1) r
  CROSS JOIN LATERAL (
    SELECT * FROM apns.push o WHERE o.subject = p.subject AND o.supersedes = p.supersedes AND o.token = p.token
      AND o.position BETWEEN CASE WHEN p_is_newer THEN p.position + 1 ELSE 0 END
        AND CASE WHEN p_is_newer THEN 9223372036854775807 ELSE p.position - 1 END
    OFFSET 0) o
  CROSS JOIN LATERAL (SELECT * FROM apns.route s WHERE s.id = o.route LIMIT 1) s
  WHERE p.position = p_position AND s.app = r.app AND s.environment = r.environment
    AND (SELECT e.position FROM apns.ended e WHERE e.position = o.position LIMIT 1) IS NULL
  LIMIT p_limit;
END $$;

-- Takes a push that is not written away from where it is. Returns whether it could.
CREATE FUNCTION apns.withdraw(p_position bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_route int;
  v_due bigint;
BEGIN
  FOR v_attempt IN 1..1000 LOOP
    SELECT route, due INTO v_route, v_due FROM apns.push WHERE position = p_position;
    IF NOT FOUND THEN RETURN false; END IF;
    DELETE FROM apns.queue WHERE route = v_route AND due = v_due AND position = p_position;
    IF FOUND THEN
      INSERT INTO apns.tally (route, queued) VALUES (v_route, -1);
      RETURN true;
    END IF;
    DELETE FROM apns.flight WHERE position = p_position AND state = 1;
    IF FOUND THEN
      INSERT INTO apns.tally (route, claimed) VALUES (v_route, -1);
      RETURN true;
    END IF;
    DELETE FROM apns.parked WHERE position = p_position;
    IF FOUND THEN
      INSERT INTO apns.tally (route, parked) VALUES (v_route, -1);
      RETURN true;
    END IF;
    IF EXISTS (SELECT FROM apns.flight WHERE position = p_position AND state = 2)
      OR EXISTS (SELECT FROM apns.ended WHERE position = p_position)
    THEN RETURN false; END IF;
    -- Another transaction has moved it meanwhile.
  END LOOP;
  RAISE EXCEPTION 'Push % has no place.', p_position USING ERRCODE = 'XX001';
END $$;

-- Ends a queued or parked push because of a newer one. Returns false if another transaction has its row, or it is in flight.
CREATE FUNCTION apns.supersede(p_push apns.push) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM apns.queue WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM apns.queue WHERE route = p_push.route AND due = p_push.due AND position = p_push.position
    FOR UPDATE SKIP LOCKED));
  IF FOUND THEN
    INSERT INTO apns.tally (route, queued) VALUES (p_push.route, -1);
  ELSE
    DELETE FROM apns.parked WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM apns.parked WHERE position = p_push.position FOR UPDATE SKIP LOCKED));
    IF NOT FOUND THEN RETURN false; END IF;
    INSERT INTO apns.tally (route, parked) VALUES (p_push.route, -1);
  END IF;
  INSERT INTO apns.ended (position, marks, certainty, sends, invalidates, result)
  VALUES (p_push.position, 0, 0, p_push.attempts, false, apns.superseded(p_push.id, p_push.attempts));
  RETURN true;
END $$;

-- Decides about a queued push with a supersede key, whose row in queue this transaction has locked: ends it if there is a
-- newer one, and otherwise the older ones. Returns whether it may be claimed.
--
-- Waits for no other transaction. One that claims a competing push at the same time has locked the row of that push, or
-- finds the row of this one locked. So one of the two leaves its push in the queue.
CREATE FUNCTION apns.may_claim(p_position bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_push apns.push;
  v_older apns.push;
BEGIN
  SELECT * INTO v_push FROM apns.push WHERE position = p_position;
  IF EXISTS (SELECT FROM apns.ended WHERE position = p_position) THEN RETURN false; END IF;
  IF EXISTS (SELECT FROM apns.rivals(p_position, true, 1)) THEN
    PERFORM apns.supersede(v_push);
    RETURN false;
  END IF;
  FOR v_older IN SELECT * FROM apns.rivals(p_position, false, NULL) LOOP
    IF NOT apns.supersede(v_older) THEN RETURN false; END IF;
  END LOOP;
  RETURN true;
END $$;

-- Enqueueing ---------------------------------------------------------------------------------------------------------

-- A push as apns.store takes it.
CREATE TYPE apns.new_push AS (
  id uuid, route int, due bigint, deadline bigint, expires bigint, resends boolean, supersedes text, token bytea, topic text, type text,
  priority smallint, expiration bigint, collapse text, payload bytea, key text, digest bytea, metadata text
);

-- Stores pushes, in the order of the array. An idempotency key belongs to the caller of the route.
--
-- p_capacity: the most pushes without an outcome, or NULL if there is certainly room.
--
-- Returns NULL if all were stored; else for each push 0 (stored), 1 (duplicate) or 2 (conflict), and the known push. If
-- there is a conflict and the call is not partial, none is stored. Raises AP001 if the queue is full.
CREATE FUNCTION apns.store(
  p_now bigint, p_partial boolean, p_capacity bigint, p_push apns.new_push[], OUT kinds smallint[], OUT known uuid[]
) LANGUAGE plpgsql AS $$
DECLARE
  v_count int := cardinality(p_push);
  v_position bigint[] := ARRAY(SELECT nextval('apns.position_seq') FROM generate_series(1, cardinality(p_push)));
  v_unsettled bigint;
  v_stored bigint;
BEGIN
  IF p_capacity IS NOT NULL THEN
    PERFORM pg_advisory_xact_lock(1095781971, -1);
    SELECT coalesce(sum(queued + claimed + written + parked), 0) INTO v_unsettled FROM apns.tally;
  END IF;
  IF NOT apns.take_names(v_position, p_push) THEN
    SELECT t.kinds, t.known INTO kinds, known FROM apns.take_names_singly(v_position, p_push) t;
    PERFORM apns.confirm();
    IF NOT p_partial AND 2 = ANY (kinds) THEN
      DELETE FROM apns.idempotency WHERE position = ANY (v_position);
      DELETE FROM apns.ident WHERE position = ANY (v_position)
        AND id = ANY (ARRAY(SELECT p.id FROM unnest(p_push) p));
      RETURN;
    END IF;
  END IF;
  WITH p AS (
    INSERT INTO apns.push (position, id, route, queued_at, due, deadline, expires, resends, supersedes, subject, token,
      topic, type, priority, expiration, collapse, payload, metadata)
    SELECT v_position[p.ordinality], p.id, p.route, p_now, p.due, p.deadline, p.expires, p.resends, p.supersedes,
      CASE WHEN p.supersedes IS NOT NULL THEN apns.subject(p.route, p.supersedes, p.token) END, p.token, p.topic, p.type,
      p.priority, p.expiration, p.collapse, p.payload, p.metadata
    FROM unnest(p_push) WITH ORDINALITY p WHERE kinds IS NULL OR kinds[p.ordinality] = 0
    RETURNING route, due, position, expires, subject),
  q AS (
    INSERT INTO apns.queue (route, due, position, expires, subject)
    SELECT p.route, p.due, p.position, p.expires, p.subject FROM p),
  t AS (INSERT INTO apns.tally (route, queued) SELECT p.route, count(*) FROM p GROUP BY p.route)
  SELECT count(*) INTO v_stored FROM p;
  -- Not before: a call that stores nothing needs no room.
  IF v_stored > 0 AND v_unsettled + v_stored > p_capacity THEN
    RAISE EXCEPTION 'The queue has reached its capacity of % pushes.', p_capacity USING ERRCODE = 'AP001';
  END IF;
END $$;

-- Takes the ids and the idempotency keys of pushes at once. Returns false, and takes none, if one of them is known.
CREATE FUNCTION apns.take_names(p_position bigint[], p_push apns.new_push[]) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_taken uuid[];
  v_keys bigint := (SELECT count(p.key) FROM unnest(p_push) p);
  v_count bigint := 0;
BEGIN
  WITH i AS (
    INSERT INTO apns.ident (id, position)
    SELECT p.id, p_position[p.ordinality] FROM unnest(p_push) WITH ORDINALITY p ORDER BY p.id ON CONFLICT DO NOTHING
    RETURNING id)
  SELECT array_agg(i.id) INTO v_taken FROM i;
  IF cardinality(v_taken) = cardinality(p_push) AND v_keys > 0 THEN
    INSERT INTO apns.idempotency (position, caller, key, digest, id)
    SELECT p_position[p.ordinality], r.caller, p.key, p.digest, p.id FROM unnest(p_push) WITH ORDINALITY p
    CROSS JOIN LATERAL (SELECT * FROM apns.route r WHERE r.id = p.route LIMIT 1) r
    WHERE p.key IS NOT NULL ORDER BY r.caller, p.key, p.ordinality ON CONFLICT (caller, key) DO NOTHING;
    GET DIAGNOSTICS v_count = ROW_COUNT;
  END IF;
  IF cardinality(v_taken) = cardinality(p_push) AND v_count = v_keys THEN RETURN true; END IF;
  DELETE FROM apns.idempotency WHERE position = ANY (p_position);
  DELETE FROM apns.ident WHERE id = ANY (v_taken);
  RETURN false;
END $$;

-- Takes the ids and the idempotency keys of pushes one after the other, in order. Returns for each push 0 (taken),
-- 1 (duplicate) or 2 (conflict), and the known push.
CREATE FUNCTION apns.take_names_singly(
  p_position bigint[], p_push apns.new_push[], OUT kinds smallint[], OUT known uuid[]
) LANGUAGE plpgsql AS $$
DECLARE
  v_push record;
  v_known record;
BEGIN
  kinds := array_fill(0::smallint, ARRAY[cardinality(p_push)]);
  known := array_fill(NULL::uuid, ARRAY[cardinality(p_push)]);
  FOR v_push IN
    SELECT p.id, p_position[p.ordinality] AS position, r.caller, p.key, p.digest, p.ordinality AS n
    FROM unnest(p_push) WITH ORDINALITY p
    CROSS JOIN LATERAL (SELECT * FROM apns.route r WHERE r.id = p.route LIMIT 1) r
    ORDER BY p.ordinality
  LOOP
    v_known := NULL;
    IF v_push.key IS NOT NULL THEN
      LOOP
        INSERT INTO apns.idempotency (position, caller, key, digest, id)
        VALUES (v_push.position, v_push.caller, v_push.key, v_push.digest, v_push.id)
        ON CONFLICT (caller, key) DO NOTHING;
        EXIT WHEN FOUND;
        SELECT i.id, i.digest INTO v_known FROM apns.idempotency i
        WHERE i.caller = v_push.caller AND i.key = v_push.key;
        EXIT WHEN FOUND; -- else it was pruned meanwhile
      END LOOP;
    END IF;
    IF v_known IS NULL THEN
      INSERT INTO apns.ident (id, position) VALUES (v_push.id, v_push.position) ON CONFLICT DO NOTHING;
      CONTINUE WHEN FOUND;
      DELETE FROM apns.idempotency WHERE position = v_push.position;
      SELECT v_push.id, k.digest INTO v_known FROM apns.ident i
      LEFT JOIN LATERAL (SELECT * FROM apns.idempotency k WHERE k.position = i.position LIMIT 1) k ON true
      WHERE i.id = v_push.id;
    END IF;
    kinds[v_push.n] := CASE WHEN v_known.digest = v_push.digest THEN 1 ELSE 2 END;
    known[v_push.n] := coalesce(v_known.id, v_push.id);
  END LOOP;
END $$;

-- Sending ------------------------------------------------------------------------------------------------------------

-- The time for leases.
CREATE FUNCTION apns.lease_clock() RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
$$;

-- Claims the first due pushes of a route. A row without a position says that overdue pushes must be settled first.
CREATE FUNCTION apns.claim(p_route int, p_limit int, p_now bigint, p_expiry bigint, p_lease_now bigint, p_lease bigint)
RETURNS TABLE (
  "position" bigint, epoch bigint, id uuid, token bytea, topic text, type text, priority smallint, expiration bigint,
  collapse text, payload bytea, queued_at bigint, deadline bigint, attempts int, resends boolean, tried smallint
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_position bigint[];
  v_row tid[];
  v_subject bigint[];
  v_epoch bigint[];
  v_blocked boolean;
  v_ends boolean := false;
BEGIN
  LOOP
    -- Without those that an older push in flight competes with.
    SELECT array_agg(q.position) FILTER (WHERE q.expires > p_now), array_agg(q.row) FILTER (WHERE q.expires > p_now),
      array_agg(q.subject) FILTER (WHERE q.expires > p_now), bool_or(q.expires <= p_now)
    INTO v_position, v_row, v_subject, v_blocked
    FROM (
      SELECT q.position, q.ctid AS row, q.expires, q.subject FROM apns.queue q
      WHERE q.route = p_route AND q.due <= p_now AND (q.expires > p_now OR q.expires <= p_expiry)
        AND (q.subject IS NULL OR (
          SELECT f.position FROM apns.flight f WHERE f.subject = q.subject AND f.position < q.position LIMIT 1) IS NULL)
      ORDER BY q.route, q.due, q.position LIMIT p_limit FOR UPDATE OF q SKIP LOCKED) q;
    EXIT WHEN array_remove(v_subject, NULL) = '{}' OR v_position IS NULL;
    SELECT array_agg(a.position ORDER BY a.n), array_agg(a.row ORDER BY a.n), array_agg(a.subject ORDER BY a.n)
    INTO v_position, v_row, v_subject
    FROM (
      -- The newest one of a key first: it ends the others.
      SELECT a.*, a.subject IS NULL OR apns.may_claim(a.position) AS is_free
      FROM (SELECT * FROM unnest(v_position, v_row, v_subject) WITH ORDINALITY AS a(position, row, subject, n)
        ORDER BY a.subject, a.position DESC OFFSET 0) a
      OFFSET 0) a
    WHERE a.is_free;
    v_ends := true;
    EXIT WHEN v_position IS NOT NULL;
    PERFORM FROM apns.ended LIMIT 1 FOR UPDATE SKIP LOCKED;
    EXIT WHEN NOT FOUND;
    PERFORM apns.finish_ended(p_now);
  END LOOP;
  IF v_position IS NULL THEN
    IF v_blocked THEN RETURN QUERY SELECT NULL::bigint, NULL::bigint, NULL::uuid, NULL::bytea, NULL::text, NULL::text, NULL::smallint, NULL::bigint,
        NULL::text, NULL::bytea, NULL::bigint, NULL::bigint, NULL::int, NULL::boolean, NULL::smallint; END IF;
    RETURN;
  END IF;
  -- This transaction must be durable, too: after a crash, the sequence could give the epochs of lost claims to others.
  DELETE FROM apns.queue WHERE ctid = ANY (v_row);
  SELECT array_agg(nextval('apns.epoch_seq')) INTO v_epoch FROM generate_series(1, cardinality(v_position));
  INSERT INTO apns.flight (position, epoch, route, state, lease, subject)
  SELECT a.position, a.epoch, p_route, 1, coalesce(p_lease_now, apns.lease_clock()) + p_lease, a.subject
  FROM unnest(v_position, v_epoch, v_subject) AS a(position, epoch, subject);
  INSERT INTO apns.tally (route, queued, claimed)
  VALUES (p_route, -cardinality(v_position), cardinality(v_position));
  IF v_ends THEN PERFORM apns.finish_ended(p_now); END IF;
  RETURN QUERY
  SELECT a.position, a.epoch, p.id, p.token, p.topic, p.type, p.priority, p.expiration, p.collapse, p.payload,
    p.queued_at, p.deadline, p.attempts, p.resends, p.tried
  FROM unnest(v_position, v_epoch) WITH ORDINALITY AS a(position, epoch, n)
  CROSS JOIN LATERAL (SELECT * FROM apns.push p WHERE p.position = a.position LIMIT 1) p
  ORDER BY a.n;
END $$;

-- Marks claims as written. Returns the epochs of the marked ones.
--
-- p_mark: a number of the call. If the call is repeated because nobody knows whether it had an effect, its marks count as its
-- own.
CREATE FUNCTION apns.mark(p_lease_now bigint, p_lease bigint, p_mark bigint, p_position bigint[], p_epoch bigint[])
RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
  v_now bigint := coalesce(p_lease_now, apns.lease_clock());
  v_marked bigint[];
BEGIN
  WITH f AS (
    UPDATE apns.flight SET state = 2, lease = v_now + p_lease, mark = p_mark
    WHERE position = ANY (p_position) AND epoch = ANY (p_epoch) AND state = 1 AND lease > v_now
    RETURNING epoch, route),
  t AS (INSERT INTO apns.tally (route, claimed, written) SELECT route, -count(*), count(*) FROM f GROUP BY route)
  SELECT array_agg(epoch) INTO v_marked FROM f;
  IF coalesce(cardinality(v_marked), 0) < cardinality(p_position) THEN
    WITH f AS (
      UPDATE apns.flight SET lease = v_now + p_lease
      WHERE position = ANY (p_position) AND epoch = ANY (p_epoch) AND state = 2 AND mark = p_mark AND lease > v_now
        AND epoch <> ALL (coalesce(v_marked, '{}'))
      RETURNING epoch)
    SELECT coalesce(v_marked, '{}') || coalesce(array_agg(epoch), '{}') INTO v_marked FROM f;
    PERFORM apns.confirm();
  END IF;
  RETURN v_marked;
END $$;

-- The end of an attempt, as apns.settle, apns.release and apns.park take it. Only apns.release uses due and counts, and
-- has attempts without an outcome, whose certainty is NULL.
CREATE TYPE apns.attempt_end AS (
  position bigint, epoch bigint, id uuid, due bigint, counts boolean, certainty smallint, sends int, invalidates boolean,
  result jsonb
);

-- Stores final outcomes.
--
-- Returns a row for each push that was not settled by this call: with the outcome that it has, or without one if the
-- outcome is stale.
CREATE FUNCTION apns.settle(p_now bigint, p_end apns.attempt_end[])
RETURNS TABLE (n int, certainty smallint, sends int, result jsonb) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_found bigint[]; -- the positions of those whose claims have not ended
  v_epochs bigint[];
  v_written boolean;
  v_claimed bigint[];
  v_row record;
  v_done bigint[] := '{}';
  v_ended apns.ended[] := '{}';
  v_others int[] := '{}';
  v_mark smallint; -- whether a push was written; NULL if this call does not settle it
BEGIN
  WITH f AS (
    DELETE FROM apns.flight
    WHERE position = ANY (ARRAY(
        SELECT a.position FROM unnest(p_end) a
        CROSS JOIN LATERAL (SELECT FROM apns.push p WHERE p.position = a.position AND p.id = a.id LIMIT 1) p))
      AND epoch = ANY (ARRAY(SELECT a.epoch FROM unnest(p_end) a))
    RETURNING position, epoch, state, route),
  t AS (
    INSERT INTO apns.tally (route, claimed, written)
    SELECT route, -count(*) FILTER (WHERE state = 1), -count(*) FILTER (WHERE state = 2) FROM f GROUP BY route)
  SELECT array_agg(position), array_agg(epoch), bool_and(state = 2), array_agg(position) FILTER (WHERE state = 1)
  INTO v_found, v_epochs, v_written, v_claimed FROM f;
  -- Most calls settle written pushes, each once.
  IF cardinality(v_found) = cardinality(p_end) AND v_written THEN
    PERFORM apns.finish(p_now, ARRAY(
      SELECT ROW(a.position, 1, a.certainty, a.sends, a.invalidates, a.result)::apns.ended FROM unnest(p_end) a));
    RETURN;
  END IF;
  FOR v_row IN SELECT * FROM unnest(p_end) WITH ORDINALITY LOOP
    IF v_row.position = ANY (v_done)
      OR NOT EXISTS (SELECT FROM apns.push p WHERE p.position = v_row.position AND p.id = v_row.id)
    THEN
      v_others := v_others || v_row.ordinality::int;
      CONTINUE;
    END IF;
    v_mark := NULL;
    IF v_row.epoch = ANY (v_epochs) OR v_row.certainty = 4 AND v_row.position = ANY (v_found) THEN
      v_mark := CASE WHEN v_row.position = ANY (v_claimed) THEN 0 ELSE 1 END;
    ELSIF v_row.certainty = 4 THEN
      -- The claim has ended, and the push has no outcome. It gets this one, even if another call has claimed it.
      v_mark := CASE WHEN apns.withdraw(v_row.position) THEN 0 END;
      IF v_mark IS NULL THEN
        DELETE FROM apns.flight f WHERE f.position = v_row.position;
        IF FOUND THEN
          v_mark := 1;
          INSERT INTO apns.tally (route, written) SELECT p.route, -1 FROM apns.push p
          WHERE p.position = v_row.position;
        END IF;
      END IF;
    END IF;
    IF v_mark IS NULL THEN
      n := v_row.ordinality;
      RETURN NEXT;
    ELSE
      v_done := v_done || v_row.position;
      v_ended := v_ended
        || ROW(v_row.position, v_mark, v_row.certainty, v_row.sends, v_row.invalidates, v_row.result)::apns.ended;
    END IF;
  END LOOP;
  IF v_done <> '{}' THEN PERFORM apns.finish(p_now, v_ended); END IF;
  PERFORM apns.confirm();
  RETURN QUERY
  SELECT i, o.certainty, o.sends, o.result FROM unnest(v_others) AS i
  LEFT JOIN LATERAL (
    SELECT o.certainty, o.sends, o.result FROM apns.outcome o
    WHERE o.position = p_end[i].position AND o.id = p_end[i].id LIMIT 1) o ON true;
END $$;

-- Queues a push again that has left flight.
CREATE FUNCTION apns.requeue(
  p_position bigint, p_state smallint, p_due bigint, p_certainty smallint, p_sends int, p_invalidates boolean,
  p_result jsonb, p_counts boolean
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_push apns.push;
  v_marks smallint := CASE WHEN p_state = 2 THEN 1 ELSE 0 END;
BEGIN
  SELECT * INTO v_push FROM apns.push WHERE position = p_position;
  UPDATE apns.push SET due = coalesce(p_due, due), attempts = attempts + CASE WHEN p_counts THEN v_marks ELSE 0 END,
    tried = apns.add_attempt(p_position, tried, p_certainty, p_sends, p_invalidates, p_result)
  WHERE position = p_position;
  INSERT INTO apns.queue (route, due, position, expires, subject)
  VALUES (v_push.route, coalesce(p_due, v_push.due), p_position, v_push.expires, v_push.subject);
  INSERT INTO apns.tally (route, queued, claimed, written) VALUES (v_push.route, 1, v_marks - 1, -v_marks);
END $$;

-- Returns claimed or written pushes to the queue.
CREATE FUNCTION apns.release(p_end apns.attempt_end[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_row record;
  v_state smallint;
BEGIN
  FOR v_row IN SELECT * FROM unnest(p_end) WITH ORDINALITY ORDER BY position, ordinality LOOP
    DELETE FROM apns.flight WHERE position = v_row.position AND epoch = v_row.epoch RETURNING state INTO v_state;
    IF NOT FOUND THEN
      PERFORM apns.confirm();
      CONTINUE;
    END IF;
    PERFORM apns.requeue(v_row.position, v_state, v_row.due, v_row.certainty, v_row.sends, v_row.invalidates,
      v_row.result, v_row.counts);
  END LOOP;
END $$;

-- Parks claimed or written pushes.
CREATE FUNCTION apns.park(p_now bigint, p_end apns.attempt_end[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_row record;
  v_route int;
  v_state smallint;
  v_marks smallint;
BEGIN
  FOR v_row IN SELECT * FROM unnest(p_end) WITH ORDINALITY ORDER BY position, ordinality LOOP
    DELETE FROM apns.flight WHERE position = v_row.position AND epoch = v_row.epoch RETURNING state INTO v_state;
    IF NOT FOUND THEN
      PERFORM apns.confirm();
      CONTINUE;
    END IF;
    v_marks := CASE WHEN v_state = 2 THEN 1 ELSE 0 END;
    UPDATE apns.push SET attempts = attempts + v_marks,
      tried = apns.add_attempt(v_row.position, tried, v_row.certainty, v_row.sends, v_row.invalidates, v_row.result)
    WHERE position = v_row.position RETURNING route INTO v_route;
    INSERT INTO apns.parked (position, route, since) VALUES (v_row.position, v_route, p_now);
    INSERT INTO apns.tally (route, claimed, written, parked) VALUES (v_route, v_marks - 1, -v_marks, 1);
  END LOOP;
END $$;

-- Ends claims whose lease has expired. Returns the numbers of those that are queued, unknown and queued to be resent.
CREATE FUNCTION apns.expire_leases(
  p_now bigint, p_lease_now bigint, OUT queued int, OUT unknown int, OUT resent int
) LANGUAGE plpgsql AS $$
DECLARE
  v_row record;
  v_push record;
BEGIN
  queued := 0;
  unknown := 0;
  resent := 0;
  FOR v_row IN
    WITH f AS (
      DELETE FROM apns.flight WHERE position = ANY (ARRAY(
        SELECT position FROM apns.flight WHERE lease <= coalesce(p_lease_now, apns.lease_clock())
        ORDER BY position FOR UPDATE SKIP LOCKED))
      RETURNING position, state)
    SELECT position, state FROM f ORDER BY position
  LOOP
    IF v_row.state = 1 THEN
      PERFORM apns.requeue(v_row.position, v_row.state, NULL, NULL, NULL, NULL, NULL, true);
      queued := queued + 1;
      CONTINUE;
    END IF;
    SELECT p.id, p.route, p.attempts, p.resends INTO v_push FROM apns.push p WHERE p.position = v_row.position;
    IF NOT v_push.resends THEN
      INSERT INTO apns.ended (position, marks, certainty, sends, invalidates, result)
      VALUES (v_row.position, 1, 3, v_push.attempts + 1, false, apns.lost(v_push.id, v_push.attempts + 1));
      INSERT INTO apns.tally (route, written) VALUES (v_push.route, -1);
      unknown := unknown + 1;
    ELSE
      PERFORM apns.requeue(v_row.position, v_row.state, NULL, 3::smallint, v_push.attempts + 1, false,
        apns.lost(v_push.id, v_push.attempts + 1), true);
      resent := resent + 1;
    END IF;
  END LOOP;
  PERFORM apns.finish_ended(p_now);
END $$;

-- Settles queued pushes whose deadline or expiration has passed. Returns their number.
CREATE FUNCTION apns.settle_overdue(p_now bigint, p_expiry bigint, p_limit int) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
  v_position bigint[];
BEGIN
  WITH q AS (
    DELETE FROM apns.queue WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM apns.queue WHERE expires <= p_expiry ORDER BY expires LIMIT p_limit FOR UPDATE SKIP LOCKED))
    RETURNING position, route),
  t AS (INSERT INTO apns.tally (route, queued) SELECT route, -count(*) FROM q GROUP BY route)
  SELECT array_agg(position ORDER BY position) INTO v_position FROM q;
  IF v_position IS NULL THEN RETURN 0; END IF;
  INSERT INTO apns.ended (position, marks, certainty, sends, invalidates, result)
  SELECT p.position, 0, 0, p.attempts, false, apns.overdue(p.id, p.attempts, p.deadline, p.expiration)
  FROM apns.push p WHERE p.position = ANY (v_position);
  PERFORM apns.finish_ended(p_now);
  RETURN cardinality(v_position);
END $$;

-- Cancels queued and parked pushes of a route. Returns their number.
CREATE FUNCTION apns.cancel_all(p_now bigint, p_route int, p_limit int) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
  v_position bigint[];
BEGIN
  WITH q AS (
    DELETE FROM apns.queue WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM apns.queue q WHERE q.route = p_route ORDER BY q.route, q.due, q.position LIMIT p_limit
      FOR UPDATE SKIP LOCKED))
    RETURNING position),
  k AS (
    DELETE FROM apns.parked WHERE position = ANY (ARRAY(
      SELECT position FROM apns.parked WHERE route = p_route ORDER BY position
      LIMIT p_limit - (SELECT count(*) FROM q) FOR UPDATE SKIP LOCKED))
    RETURNING position),
  t AS (
    INSERT INTO apns.tally (route, queued, parked)
    SELECT p_route, -(SELECT count(*) FROM q), -(SELECT count(*) FROM k)),
  a AS (SELECT * FROM q UNION ALL SELECT * FROM k)
  SELECT array_agg(position ORDER BY position) INTO v_position FROM a;
  IF v_position IS NULL THEN RETURN 0; END IF;
  INSERT INTO apns.ended (position, marks, certainty, sends, invalidates, result)
  SELECT p.position, 0, 0, p.attempts, false, apns.cancelled(p.id, p.attempts)
  FROM apns.push p WHERE p.position = ANY (v_position);
  PERFORM apns.finish_ended(p_now);
  RETURN cardinality(v_position);
END $$;

-- How many pushes of each batch are in each state, have an outcome with each certainty, and have a dead device token. One
-- statement, so that every push counts once.
CREATE FUNCTION apns.batch_counts(p_batch uuid[]) RETURNS TABLE (
  batch uuid, queued bigint, claimed bigint, written bigint, parked bigint, outcomes bigint[], dead bigint
) LANGUAGE sql STABLE AS $$
  WITH r AS (SELECT r.id, r.batch FROM apns.route r WHERE r.batch = ANY (p_batch)),
  t AS (
    SELECT t.route, sum(t.queued)::bigint AS queued, sum(t.claimed)::bigint AS claimed,
      sum(t.written)::bigint AS written, sum(t.parked)::bigint AS parked
    FROM apns.tally t WHERE t.route = ANY (ARRAY(SELECT r.id FROM r)) GROUP BY t.route),
  b AS (
    SELECT b.route, b.certainty, b.invalidates, b.pushes FROM apns.batch_outcome b
    WHERE b.route = ANY (ARRAY(SELECT r.id FROM r))
    UNION ALL
    SELECT p.route, greatest(e.certainty, a.certainty),
      CASE WHEN a.certainty > e.certainty THEN a.invalidates ELSE e.invalidates END, 1
    FROM apns.ended e
    CROSS JOIN LATERAL (SELECT * FROM apns.push p WHERE p.position = e.position LIMIT 1) p
    LEFT JOIN LATERAL (
      SELECT * FROM apns.attempt a WHERE p.tried <> 0 AND a.position = e.position LIMIT 1) a ON true),
  o AS (
    SELECT b.route, ARRAY[
        coalesce(sum(b.pushes) FILTER (WHERE b.certainty = 0), 0)::bigint,
        coalesce(sum(b.pushes) FILTER (WHERE b.certainty = 1), 0)::bigint,
        coalesce(sum(b.pushes) FILTER (WHERE b.certainty = 2), 0)::bigint,
        coalesce(sum(b.pushes) FILTER (WHERE b.certainty = 3), 0)::bigint,
        coalesce(sum(b.pushes) FILTER (WHERE b.certainty = 4), 0)::bigint] AS outcomes,
      coalesce(sum(b.pushes) FILTER (WHERE b.invalidates), 0)::bigint AS dead
    FROM b GROUP BY b.route)
  SELECT r.batch, coalesce(t.queued, 0), coalesce(t.claimed, 0), coalesce(t.written, 0), coalesce(t.parked, 0),
    coalesce(o.outcomes, '{}'), coalesce(o.dead, 0)
  FROM r LEFT JOIN t ON t.route = r.id LEFT JOIN o ON o.route = r.id
$$;

CREATE FUNCTION apns.forget_route(p_route int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  -- A request may have added pushes a moment ago.
  IF (SELECT sum(t.queued + t.claimed + t.written + t.parked) > 0 FROM apns.tally t WHERE t.route = p_route) THEN RETURN; END IF;
  DELETE FROM apns.batch_outcome WHERE route = p_route;
  DELETE FROM apns.route WHERE id = p_route;
END $$;

-- Does what other transactions have left to do: finishes ended pushes, adds the tally up.
CREATE FUNCTION apns.tend(p_now bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM apns.finish_ended(p_now);
  IF (SELECT count(*) < greatest(200, 2 * count(DISTINCT route)) FROM (SELECT route FROM apns.tally LIMIT 20000) t) THEN
    RETURN;
  END IF;
  WITH t AS (
    DELETE FROM apns.tally WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM apns.tally LIMIT 10000 FOR UPDATE SKIP LOCKED))
    RETURNING *)
  INSERT INTO apns.tally (route, queued, claimed, written, parked)
  SELECT route, sum(queued), sum(claimed), sum(written), sum(parked) FROM t GROUP BY route
  HAVING (sum(queued), sum(claimed), sum(written), sum(parked)) <> (0, 0, 0, 0);
  WITH b AS (
    DELETE FROM apns.batch_outcome WHERE route = ANY (ARRAY(
      SELECT route FROM apns.batch_outcome GROUP BY route HAVING count(*) > 100 LIMIT 100))
    RETURNING *)
  INSERT INTO apns.batch_outcome (route, certainty, invalidates, pushes)
  SELECT route, certainty, invalidates, sum(pushes) FROM b GROUP BY route, certainty, invalidates;
END $$;

-- The routes with queued pushes, and when the first one of each is due.
CREATE FUNCTION apns.queued_routes(p_now bigint) RETURNS TABLE (
  app text, environment text, lane smallint, batch uuid, caller text, due bigint
) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT r.app, r.environment, r.lane, r.batch, c.name, CASE WHEN q.due > 0 THEN q.due ELSE least(p_now, (
    SELECT p.queued_at FROM apns.push p WHERE p.position = q.position LIMIT 1)) END
  FROM apns.route r
  CROSS JOIN LATERAL (
    SELECT q.due, q.position FROM apns.queue q WHERE q.route = r.id ORDER BY q.route, q.due, q.position LIMIT 1) q
  CROSS JOIN LATERAL (SELECT * FROM apns.caller c WHERE c.id = r.caller LIMIT 1) c;
END $$;

-- One push -----------------------------------------------------------------------------------------------------------

-- Cancels a push. Returns 0 if it is cancelled, 1 if it is written, 2 if it had an outcome, and 3 if it is unknown.
CREATE FUNCTION apns.cancel(
  p_now bigint, p_id uuid, OUT kind int, OUT certainty smallint, OUT sends int, OUT result jsonb
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_push record;
BEGIN
  SELECT p.position, p.attempts INTO v_push FROM apns.ident i
  CROSS JOIN LATERAL (SELECT * FROM apns.push p WHERE p.position = i.position LIMIT 1) p WHERE i.id = p_id;
  IF FOUND THEN
    IF apns.withdraw(v_push.position) THEN
      INSERT INTO apns.ended (position, marks, certainty, sends, invalidates, result)
      VALUES (v_push.position, 0, 0, v_push.attempts, false, apns.cancelled(p_id, v_push.attempts));
      PERFORM apns.finish_ended(p_now);
      kind := 0;
      RETURN;
    END IF;
    IF EXISTS (SELECT FROM apns.flight f WHERE f.position = v_push.position) THEN
      kind := 1;
      RETURN;
    END IF;
    -- It has an outcome, which may not be in the feed yet.
    PERFORM apns.finish_ended(p_now);
  END IF;
  SELECT 2, o.certainty, o.sends, o.result INTO kind, certainty, sends, result FROM apns.ident i
  CROSS JOIN LATERAL (SELECT * FROM apns.outcome o WHERE o.position = i.position LIMIT 1) o WHERE i.id = p_id;
  IF NOT FOUND THEN kind := 3; END IF;
  PERFORM apns.confirm();
END $$;

-- The status of pushes without an outcome, by their positions.
CREATE FUNCTION apns.unsettled(p_position bigint[]) RETURNS TABLE (
  id uuid, app text, environment text, lane smallint, batch uuid, caller text, token bytea, queued_at bigint,
  due bigint, deadline bigint, attempts int, state smallint, certainty smallint, sends int, result jsonb, key text, metadata text
) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT p.id, r.app, r.environment, r.lane, r.batch, c.name, p.token, p.queued_at,
    CASE WHEN p.due > 0 THEN p.due ELSE p.queued_at END, p.deadline, p.attempts + CASE WHEN f.state = 2 THEN 1 ELSE 0 END,
    (CASE WHEN k.position IS NOT NULL THEN 3 ELSE coalesce(f.state, 0) END)::smallint, t.certainty, t.sends, t.result,
    i.key, p.metadata
  FROM unnest(p_position) WITH ORDINALITY AS a(position, n)
  CROSS JOIN LATERAL (SELECT * FROM apns.push p WHERE p.position = a.position LIMIT 1) p
  CROSS JOIN LATERAL (SELECT * FROM apns.route r WHERE r.id = p.route LIMIT 1) r
  CROSS JOIN LATERAL (SELECT * FROM apns.caller c WHERE c.id = r.caller LIMIT 1) c
  LEFT JOIN LATERAL (SELECT * FROM apns.flight f WHERE f.position = a.position LIMIT 1) f ON true
  LEFT JOIN LATERAL (SELECT * FROM apns.parked k WHERE k.position = a.position LIMIT 1) k ON true
  LEFT JOIN LATERAL (SELECT * FROM apns.attempt t WHERE t.position = a.position LIMIT 1) t ON true
  LEFT JOIN LATERAL (SELECT * FROM apns.idempotency i WHERE i.position = a.position LIMIT 1) i ON true
  ORDER BY a.n;
END $$;

-- The status of one push. The state is 0 queued, 1 claimed, 2 written, 3 parked, 4 settled.
CREATE FUNCTION apns.status(p_id uuid) RETURNS TABLE (
  id uuid, app text, environment text, lane smallint, batch uuid, caller text, token bytea, queued_at bigint,
  due bigint, deadline bigint, attempts int, state smallint, certainty smallint, sends int, result jsonb, key text, metadata text,
  settled_at bigint
) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
  v_position bigint;
BEGIN
  SELECT i.position INTO v_position FROM apns.ident i WHERE i.id = p_id;
  IF NOT FOUND THEN RETURN; END IF;
  RETURN QUERY SELECT u.*, NULL::bigint FROM apns.unsettled(ARRAY[v_position]) u;
  IF FOUND THEN RETURN; END IF;
  RETURN QUERY
  SELECT o.id, r.app, r.environment, r.lane, r.batch, c.name, o.token, o.queued_at, o.due, o.deadline, o.attempts,
    4::smallint, o.certainty, o.sends, o.result, i.key, o.metadata, o.settled_at
  FROM apns.outcome o
  CROSS JOIN LATERAL (SELECT * FROM apns.route r WHERE r.id = o.route LIMIT 1) r
  CROSS JOIN LATERAL (SELECT * FROM apns.caller c WHERE c.id = r.caller LIMIT 1) c
  LEFT JOIN LATERAL (SELECT * FROM apns.idempotency i WHERE i.position = v_position LIMIT 1) i ON true
  WHERE o.position = v_position;
END $$;

-- The feed -----------------------------------------------------------------------------------------------------------

-- Outcomes after a cursor. The last row has no id: its cursor is where the next page begins, and it has the bounds of the
-- feed and the histories.
CREATE FUNCTION apns.outcomes_after(p_cursor bigint, p_apps text[], p_invalidates boolean, p_limit int, p_scan int)
RETURNS TABLE (
  cursor bigint, id uuid, app text, environment text, lane smallint, batch uuid, caller text, token bytea,
  queued_at bigint, due bigint, deadline bigint, attempts int, certainty smallint, sends int, result jsonb, settled_at bigint,
  key text, metadata text, last bigint, pruned bigint, histories bigint[], starts bigint[],
  is_end boolean
) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
  v_row record;
  v_end bigint;
  v_found int := 0;
  v_scanned int := 0;
BEGIN
  FOR v_row IN
    SELECT o.*, r.app, r.environment, r.lane, r.batch, c.name AS caller, i.key FROM (
      SELECT * FROM apns.outcome o WHERE o.cursor > p_cursor AND (o.invalidates OR NOT p_invalidates)
      ORDER BY o.cursor LIMIT p_scan) o
    CROSS JOIN LATERAL (SELECT * FROM apns.route r WHERE r.id = o.route LIMIT 1) r
    CROSS JOIN LATERAL (SELECT * FROM apns.caller c WHERE c.id = r.caller LIMIT 1) c
    LEFT JOIN LATERAL (SELECT * FROM apns.idempotency i WHERE i.position = o.position LIMIT 1) i ON true
    ORDER BY o.cursor
  LOOP
    v_scanned := v_scanned + 1;
    v_end := v_row.cursor;
    CONTINUE WHEN v_row.app <> ALL (p_apps);
    RETURN QUERY SELECT v_row.cursor, v_row.id, v_row.app, v_row.environment, v_row.lane, v_row.batch,
      v_row.caller,
      v_row.token, v_row.queued_at, v_row.due, v_row.deadline, v_row.attempts, v_row.certainty, v_row.sends,
      v_row.result, v_row.settled_at, v_row.key, v_row.metadata, NULL::bigint, NULL::bigint, NULL::bigint[],
      NULL::bigint[], NULL::boolean;
    v_found := v_found + 1;
    EXIT WHEN v_found = p_limit;
  END LOOP;
  -- The feed ends here. Its last outcomes may be of another kind, or deleted.
  SELECT f.last, f.pruned INTO last, pruned FROM apns.feed f;
  is_end := v_found < p_limit AND v_scanned < p_scan;
  IF is_end THEN v_end := greatest(last, v_end); END IF;
  cursor := v_end;
  SELECT array_agg(h.id ORDER BY h.ordinal), array_agg(h.start ORDER BY h.ordinal) INTO histories, starts
  FROM apns.history h;
  RETURN NEXT;
END $$;

-- Parked pushes ------------------------------------------------------------------------------------------------------

CREATE FUNCTION apns.parked_after(p_id uuid, p_limit int) RETURNS TABLE (
  id uuid, app text, environment text, lane smallint, batch uuid, caller text, token bytea, queued_at bigint,
  due bigint, deadline bigint, attempts int, state smallint, certainty smallint, sends int, result jsonb, key text, metadata text
) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY SELECT * FROM apns.unsettled(ARRAY(
    SELECT k.position FROM apns.parked k
    WHERE k.position > coalesce((SELECT i.position FROM apns.ident i WHERE i.id = p_id), 0)
    ORDER BY k.position LIMIT p_limit));
END $$;

-- Queues parked pushes again (p_retries) or settles them. Returns for each whether it was parked.
CREATE FUNCTION apns.decide_parked(p_now bigint, p_due bigint, p_retries boolean, p_id uuid[])
RETURNS boolean[] LANGUAGE plpgsql AS $$
DECLARE
  v_row record;
  v_parked boolean[] := array_fill(false, ARRAY[cardinality(p_id)]);
BEGIN
  FOR v_row IN
    SELECT a.n, p.position, p.id, p.route, p.attempts, p.expires, p.subject FROM unnest(p_id) WITH ORDINALITY AS a(id, n)
    CROSS JOIN LATERAL (SELECT * FROM apns.ident i WHERE i.id = a.id LIMIT 1) i
    CROSS JOIN LATERAL (SELECT * FROM apns.push p WHERE p.position = i.position LIMIT 1) p
    ORDER BY p.position, a.n
  LOOP
    DELETE FROM apns.parked WHERE position = v_row.position;
    CONTINUE WHEN NOT FOUND;
    v_parked[v_row.n] := true;
    IF p_retries THEN
      UPDATE apns.push SET due = p_due, attempts = 0 WHERE position = v_row.position;
      INSERT INTO apns.queue (route, due, position, expires, subject)
      VALUES (v_row.route, p_due, v_row.position, v_row.expires, v_row.subject);
      INSERT INTO apns.tally (route, queued, parked) VALUES (v_row.route, 1, -1);
    ELSE
      PERFORM apns.end_parked(v_row.position, v_row.id, v_row.route, v_row.attempts);
    END IF;
  END LOOP;
  PERFORM apns.finish_ended(p_now);
  RETURN v_parked;
END $$;

-- Ends a push that has left parked, with the outcome of its attempts.
CREATE FUNCTION apns.end_parked(p_position bigint, p_id uuid, p_route int, p_attempts int) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO apns.tally (route, parked) VALUES (p_route, -1);
  INSERT INTO apns.ended (position, marks, certainty, sends, invalidates, result)
  SELECT p_position, 0, t.certainty, t.sends, t.invalidates, t.result FROM apns.attempt t
  WHERE t.position = p_position;
  IF NOT FOUND THEN
    INSERT INTO apns.ended (position, marks, certainty, sends, invalidates, result)
    VALUES (p_position, 0, 0, p_attempts, false, apns.cancelled(p_id, p_attempts));
  END IF;
END $$;

-- State --------------------------------------------------------------------------------------------------------------

CREATE FUNCTION apns.counts() RETURNS TABLE (
  app text, environment text, lane smallint, batch uuid, caller text, queued bigint, claimed bigint, written bigint,
  parked bigint
) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT r.app, r.environment, r.lane, r.batch, c.name, t.queued, t.claimed, t.written, t.parked FROM (
    SELECT t.route, sum(t.queued)::bigint AS queued, sum(t.claimed)::bigint AS claimed,
      sum(t.written)::bigint AS written, sum(t.parked)::bigint AS parked
    FROM apns.tally t GROUP BY t.route) t
  CROSS JOIN LATERAL (SELECT * FROM apns.route r WHERE r.id = t.route LIMIT 1) r
  CROSS JOIN LATERAL (SELECT * FROM apns.caller c WHERE c.id = r.caller LIMIT 1) c
  WHERE (t.queued, t.claimed, t.written, t.parked) <> (0, 0, 0, 0);
END $$;

-- Parks the pushes that may have been sent in a time which this database has lost: those that are due, and those in flight.
-- Their owners decide. A push whose owner wants it sent again anyway is queued. Returns how many it parked, in one or more
-- rows for each route.
--
-- p_last: the last position from before. Later pushes cannot have been sent, and there may always be more of them.
CREATE FUNCTION apns.park_doubtful(p_now bigint, p_last bigint) RETURNS TABLE (of_route int, pushes bigint) LANGUAGE plpgsql
SET enable_seqscan = on SET enable_hashjoin = on SET plan_cache_mode = auto AS $$
DECLARE
  v_due bigint[]; -- due, and not to be sent again
  v_flight bigint[];
  v_resent bigint[];
BEGIN
  SELECT array_agg(q.position) INTO v_resent
  FROM apns.queue q JOIN apns.push p ON p.position = q.position
  WHERE q.due <= p_now AND q.position <= p_last AND p.resends;
  LOOP
    WITH q AS (
      DELETE FROM apns.queue q USING apns.push p
      WHERE p.position = q.position AND q.due <= p_now AND q.position <= p_last AND NOT p.resends
      RETURNING q.position, q.route),
    t AS (INSERT INTO apns.tally (route, queued) SELECT route, -count(*) FROM q GROUP BY route)
    SELECT array_agg(position) INTO v_due FROM q;
    WITH f AS (
      DELETE FROM apns.flight
      WHERE position = ANY (ARRAY(SELECT position FROM apns.flight WHERE position <= p_last ORDER BY position FOR UPDATE))
      RETURNING position, route, state),
    m AS (
      UPDATE apns.push SET attempts = attempts + 1
      WHERE position = ANY (ARRAY(SELECT position FROM f WHERE state = 2))),
    t AS (
      INSERT INTO apns.tally (route, claimed, written)
      SELECT route, -count(*) FILTER (WHERE state = 1), -count(*) FILTER (WHERE state = 2) FROM f GROUP BY route)
    SELECT array_agg(position) INTO v_flight FROM f;
    -- Other calls go on meanwhile, and may have moved pushes past these statements.
    EXIT WHEN v_due IS NULL AND v_flight IS NULL AND v_resent IS NULL;
    RETURN QUERY WITH p AS (
      UPDATE apns.push SET tried = 2 WHERE position = ANY (v_due || v_flight || v_resent)
      RETURNING position, id, route, due, expires, subject, attempts, resends),
    a AS (
      INSERT INTO apns.attempt AS a (position, certainty, sends, invalidates, result)
      SELECT p.position, 3, p.attempts, false, apns.failure('unknown', 'connectionLost', p.id, p.attempts,
        'the database was restored or a standby was promoted, and the push may have been sent before')
      FROM p
      ON CONFLICT (position) DO UPDATE
      SET certainty = 3, sends = excluded.sends, result = excluded.result, invalidates = false
      WHERE a.certainty <= 3),
    k AS (
      INSERT INTO apns.parked (position, route, since) SELECT p.position, p.route, p_now FROM p WHERE NOT p.resends
      RETURNING route),
    q AS (
      INSERT INTO apns.queue (route, due, position, expires, subject)
      SELECT p.route, p.due, p.position, p.expires, p.subject FROM p WHERE p.resends AND p.position = ANY (v_flight)
      RETURNING route),
    t AS (
      INSERT INTO apns.tally (route, queued, parked)
      SELECT route, 0, count(*) FROM k GROUP BY route UNION ALL SELECT route, count(*), 0 FROM q GROUP BY route)
    SELECT route, count(*) FROM k GROUP BY route;
    v_resent := NULL;
  END LOOP;
END $$;

-- Identifies the database and the timeline of its server.
CREATE FUNCTION apns.server() RETURNS text LANGUAGE sql STABLE AS $$
  SELECT concat_ws('/', (SELECT system_identifier FROM pg_control_system()),
    (SELECT oid FROM pg_database WHERE datname = current_database()),
    substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))
$$;

-- How far the queue has come, and whether its last history belongs to this server: after a restore on another server, and
-- after the promotion of a standby, it does not. queue is NULL before the first history.
CREATE FUNCTION apns.progress(
  OUT queue bigint, OUT history int, OUT epoch bigint, OUT feed bigint, OUT is_current boolean
) LANGUAGE sql STABLE AS $$
  SELECT (SELECT h.id FROM apns.history h ORDER BY h.ordinal LIMIT 1),
    coalesce((SELECT max(h.ordinal) FROM apns.history h), 0),
    (SELECT e.last_value FROM apns.epoch_seq e), (SELECT f.last FROM apns.feed f),
    coalesce((SELECT h.server = apns.server() FROM apns.history h ORDER BY h.ordinal DESC LIMIT 1), false)
$$;

-- Begins a history, unless another relay has done so. Positions and epochs of the time that may be lost are not used again.
-- Returns the numbers of pushes that it parked, and at the end a row without an app; no row if it began no history.
--
-- p_history: the history that the caller has found.
-- p_parks: whether pushes that may have been sent in the lost time are parked.
-- p_epoch, p_feed: the largest epoch and position that the caller has seen.
CREATE FUNCTION apns.begin_history(p_now bigint, p_history int, p_parks boolean, p_epoch bigint, p_feed bigint)
RETURNS TABLE (app text, environment text, lane smallint, parked bigint) LANGUAGE plpgsql AS $$
DECLARE
  v_position bigint;
  v_last bigint;
BEGIN
  LOCK TABLE apns.history IN SHARE ROW EXCLUSIVE MODE;
  IF p_history <> (SELECT coalesce(max(h.ordinal), 0) FROM apns.history h) THEN RETURN; END IF;
  IF p_history > 0 THEN
    v_position := nextval('apns.position_seq');
    PERFORM setval('apns.position_seq', v_position + 1000000000);
    PERFORM setval('apns.epoch_seq', greatest(nextval('apns.epoch_seq'), p_epoch) + 1000000000);
    IF p_parks THEN
      RETURN QUERY SELECT r.app, r.environment, r.lane, sum(k.pushes)::bigint FROM apns.park_doubtful(p_now, v_position) k
      CROSS JOIN LATERAL (SELECT * FROM apns.route r WHERE r.id = k.of_route LIMIT 1) r
      GROUP BY r.app, r.environment, r.lane;
    END IF;
  END IF;
  SELECT f.last INTO v_last FROM apns.feed f FOR UPDATE;
  INSERT INTO apns.history (id, start, server)
  VALUES (floor(random() * 4294967294)::bigint + 1, v_last + 1, apns.server());
  IF p_history > 0 THEN UPDATE apns.feed SET last = greatest(last, p_feed) + 1000000000; END IF;
  RETURN QUERY SELECT NULL, NULL, NULL::smallint, 0::bigint;
END $$;

-- The number of a caller; adds it if it is new.
CREATE FUNCTION apns.caller_id(p_name text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  v_id int;
BEGIN
  SELECT id INTO v_id FROM apns.caller WHERE name = p_name;
  IF FOUND THEN RETURN v_id; END IF;
  INSERT INTO apns.caller (name) VALUES (p_name) ON CONFLICT DO NOTHING;
  SELECT id INTO STRICT v_id FROM apns.caller WHERE name = p_name;
  RETURN v_id;
END $$;

-- The number of a route; adds it if it is new.
CREATE FUNCTION apns.route_id(
  p_app text, p_environment text, p_lane smallint, p_caller text,
  p_batch uuid DEFAULT '00000000-0000-0000-0000-000000000000'
) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  v_caller int := apns.caller_id(p_caller);
  v_id int;
BEGIN
  SELECT id INTO v_id FROM apns.route
  WHERE app = p_app AND environment = p_environment AND lane = p_lane AND caller = v_caller AND batch = p_batch;
  IF FOUND THEN RETURN v_id; END IF;
  INSERT INTO apns.route (app, environment, lane, caller, batch)
  VALUES (p_app, p_environment, p_lane, v_caller, p_batch) ON CONFLICT DO NOTHING;
  SELECT id INTO STRICT v_id FROM apns.route
  WHERE app = p_app AND environment = p_environment AND lane = p_lane AND caller = v_caller AND batch = p_batch;
  RETURN v_id;
END $$;

-- The id of the push that a caller has submitted with an idempotency key; NULL if the key is unknown.
CREATE FUNCTION apns.id_of_key(p_caller text, p_key text) RETURNS uuid LANGUAGE sql STABLE AS $$
  SELECT i.id FROM apns.caller c JOIN apns.idempotency i ON i.caller = c.id WHERE c.name = p_caller AND i.key = p_key
$$;

-- Stores a value if the present one is the expected one; NULL is no value.
CREATE FUNCTION apns.exchange_value(p_key text, p_value bytea, p_expected bytea) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  IF p_expected IS NULL THEN
    IF p_value IS NULL THEN
      PERFORM apns.confirm();
      RETURN NOT EXISTS (SELECT FROM apns.value WHERE key = p_key);
    END IF;
    INSERT INTO apns.value (key, value) VALUES (p_key, p_value) ON CONFLICT DO NOTHING;
  ELSIF p_value IS NULL THEN
    DELETE FROM apns.value WHERE key = p_key AND value = p_expected;
  ELSE
    UPDATE apns.value SET value = p_value WHERE key = p_key AND value = p_expected;
  END IF;
  IF FOUND THEN RETURN true; END IF;
  PERFORM apns.confirm();
  RETURN false;
END $$;

-- Deletes what is no longer kept: keys, parked pushes and outcomes that are older than these times. Returns the
-- number of rows; p_limit if there may be more.
CREATE FUNCTION apns.prune(
  p_now bigint, p_keys bigint, p_parked bigint, p_outcomes bigint, p_limit int
) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  v_left int := p_limit;
  v_count int;
  v_row record;
  v_cursor bigint[];
  v_id uuid[];
BEGIN
  DELETE FROM apns.idempotency WHERE position = ANY (ARRAY(
    SELECT position FROM apns.idempotency WHERE settled_at <= p_keys ORDER BY settled_at LIMIT v_left
    FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS v_count = ROW_COUNT;
  v_left := v_left - v_count;
  IF v_left > 0 THEN
    FOR v_row IN
      WITH k AS (
        DELETE FROM apns.parked WHERE position = ANY (ARRAY(
          SELECT position FROM apns.parked WHERE since <= p_parked ORDER BY since, position LIMIT v_left
          FOR UPDATE SKIP LOCKED))
        RETURNING position)
      SELECT p.* FROM k CROSS JOIN LATERAL (SELECT * FROM apns.push p WHERE p.position = k.position LIMIT 1) p
      ORDER BY p.position
    LOOP
      PERFORM apns.end_parked(v_row.position, v_row.id, v_row.route, v_row.attempts);
      v_left := v_left - 1;
    END LOOP;
  END IF;
  IF v_left > 0 THEN
    WITH o AS MATERIALIZED (
      SELECT o.cursor, o.id, o.settled_at FROM apns.outcome o ORDER BY o.cursor LIMIT v_left)
    SELECT array_agg(o.cursor ORDER BY o.cursor), array_agg(o.id) INTO v_cursor, v_id FROM o
    WHERE o.cursor < coalesce((SELECT min(k.cursor) FROM o k WHERE k.settled_at > p_outcomes), 9223372036854775807);
    IF v_cursor IS NOT NULL THEN
      DELETE FROM apns.ident WHERE id = ANY (v_id);
      DELETE FROM apns.outcome WHERE cursor = ANY (v_cursor);
      v_left := v_left - cardinality(v_cursor);
      UPDATE apns.feed SET pruned = greatest(pruned, v_cursor[cardinality(v_cursor)]);
    END IF;
  END IF;
  PERFORM apns.finish_ended(p_now);
  RETURN p_limit - v_left;
END $$;
