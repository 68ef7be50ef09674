-- SQL for other programs: apns.enqueue and apns.enqueue_many store pushes in the caller's own transaction, and the view
-- apns.outcomes shows the feed.
--
-- The functions run with the rights of their owner. Give a role USAGE on the schema and EXECUTE on the two functions, and
-- it can store pushes and see nothing. They take no lock that a relay waits for, however long the transaction is.

-- What the functions need of the relays' settings. Each relay stores its own at the start and whenever they change.
CREATE TABLE apns.app (
  name text PRIMARY KEY,
  topic text NOT NULL,
  environments text[] NOT NULL,
  default_environment text, -- NULL if a push must name one
  capacity bigint, -- the most pushes without an outcome; NULL for no limit
  is_full boolean NOT NULL DEFAULT false -- whether the app had so many when a relay counted last
);

-- Apple's rules for each push type. Another type is sent as given.
CREATE TABLE apns.push_type (
  name text PRIMARY KEY,
  topic_suffix text NOT NULL,
  payload_limit int NOT NULL, -- bytes
  priorities smallint[] NOT NULL
);

CREATE TABLE apns.intake (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  default_deadline bigint NOT NULL, -- milliseconds from now
  max_deadline bigint NOT NULL,
  is_full boolean NOT NULL DEFAULT false -- whether the queue was full when a relay counted last
);

-- Stores a relay's settings for these functions.
CREATE FUNCTION apns.publish_intake(
  p_default_deadline bigint, p_max_deadline bigint, p_app text[], p_topic text[], p_environments text[],
  p_default_environment text[], p_capacity bigint[], p_type text[], p_suffix text[], p_limit int[], p_priorities text[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO apns.intake AS i (default_deadline, max_deadline) VALUES (p_default_deadline, p_max_deadline)
  ON CONFLICT (one) DO UPDATE SET default_deadline = p_default_deadline, max_deadline = p_max_deadline
  WHERE (i.default_deadline, i.max_deadline) <> (p_default_deadline, p_max_deadline);
  DELETE FROM apns.app WHERE name <> ALL (p_app);
  INSERT INTO apns.app AS o (name, topic, environments, default_environment, capacity)
  SELECT a.name, a.topic, string_to_array(a.environments, ','), a.default_environment, a.capacity
  FROM unnest(p_app, p_topic, p_environments, p_default_environment, p_capacity)
    AS a(name, topic, environments, default_environment, capacity) ORDER BY a.name
  ON CONFLICT (name) DO UPDATE SET topic = excluded.topic, environments = excluded.environments,
    default_environment = excluded.default_environment, capacity = excluded.capacity
  WHERE (o.topic, o.environments, o.default_environment, o.capacity)
    IS DISTINCT FROM (excluded.topic, excluded.environments, excluded.default_environment, excluded.capacity);
  INSERT INTO apns.push_type AS o (name, topic_suffix, payload_limit, priorities)
  SELECT t.name, t.suffix, t.bytes, string_to_array(t.priorities, ',')::smallint[]
  FROM unnest(p_type, p_suffix, p_limit, p_priorities) AS t(name, suffix, bytes, priorities) ORDER BY t.name
  ON CONFLICT (name) DO UPDATE SET topic_suffix = excluded.topic_suffix, payload_limit = excluded.payload_limit,
    priorities = excluded.priorities
  WHERE (o.topic_suffix, o.payload_limit, o.priorities)
    <> (excluded.topic_suffix, excluded.payload_limit, excluded.priorities);
END $$;

-- Stores whether the queue and each app are full. p_unsettled: the pushes without an outcome of each app that has some.
CREATE FUNCTION apns.publish_full(p_is_full boolean, p_app text[], p_unsettled bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE apns.intake SET is_full = p_is_full WHERE is_full <> p_is_full;
  UPDATE apns.app a SET is_full = NOT a.is_full
  WHERE a.is_full <> (a.capacity IS NOT NULL
    AND coalesce(p_unsettled[array_position(p_app, a.name)], 0) >= a.capacity);
END $$;

-- The first due push of each route whose pushes other programs store; no row if none ever has. Relays compare it with what
-- they saw before, so the transactions of these programs need not notify them.
CREATE FUNCTION apns.intake_heads(p_now bigint) RETURNS TABLE (route int, "position" bigint) LANGUAGE sql STABLE AS $$
  SELECT r.id, q.position FROM apns.caller c
  CROSS JOIN LATERAL (SELECT * FROM apns.route r WHERE r.caller = c.id OFFSET 0) r
  LEFT JOIN LATERAL (
    SELECT q.position FROM apns.queue q WHERE q.route = r.id AND q.due <= p_now
    ORDER BY q.route, q.due, q.position LIMIT 1) q ON true
  WHERE starts_with(c.name, 'sql:')
$$;

-- Raises the error for a wrong argument. p_element: the place of its push in the array of apns.enqueue_many, counted from 1;
-- NULL for apns.enqueue.
CREATE FUNCTION apns.refuse(p_element int, p_argument text, p_message text, p_hint text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '%: %', p_argument, p_message || coalesce(' (element ' || p_element || ' of pushes)', '')
    USING ERRCODE = '22023', COLUMN = p_argument, HINT = p_hint;
END $$;

-- The milliseconds since 1970 of a time that an argument gives; NULL if it is NULL.
CREATE FUNCTION apns.milliseconds(p_element int, p_argument text, p_time timestamptz) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
  IF p_time < 'epoch' OR NOT isfinite(p_time) THEN
    PERFORM apns.refuse(p_element, p_argument, 'expected a finite time after 1970', CASE p_argument
      WHEN 'expiration' THEN 'Pass ''epoch'' if APNs must not store the push, and leave it out for Apple''s default.'
      ELSE 'Leave it out for the default.' END);
  END IF;
  RETURN floor(extract(epoch FROM p_time) * 1000);
END $$;

-- Checks the arguments of apns.enqueue as the relay's HTTP API does, and adds the defaults. NULL means "not given".
CREATE FUNCTION apns.checked(
  p_now bigint, p_element int, app text, token text, payload json, push_type text, environment text, topic text, priority int,
  expiration timestamptz, collapse_id text, apns_id uuid, idempotency_key text, not_before timestamptz,
  deadline timestamptz, lane text, supersedes text, resend_unknown boolean, metadata json
) RETURNS apns.new_push LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
  v_app apns.app;
  v_type apns.push_type;
  v_intake apns.intake;
  v_push apns.new_push;
  v_environment text := environment;
  v_not_before bigint := apns.milliseconds(p_element, 'not_before', not_before);
  v_deadline bigint := apns.milliseconds(p_element, 'deadline', deadline);
BEGIN
  push_type := coalesce(push_type, 'alert');
  resend_unknown := coalesce(resend_unknown, false);
  IF json_typeof(payload) = 'null' THEN payload := NULL; END IF;
  IF json_typeof(metadata) = 'null' THEN metadata := NULL; END IF;
  SELECT * INTO v_intake FROM apns.intake;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'no relay has started on this database yet'
      USING ERRCODE = '55000', HINT = 'Start apns-relay once, so that it stores its apps here.';
  END IF;
  IF v_intake.is_full THEN
    RAISE EXCEPTION 'the queue has reached its capacity' USING ERRCODE = '53400', HINT = 'Try again later.';
  END IF;
  SELECT * INTO v_app FROM apns.app a WHERE a.name = app;
  IF NOT FOUND THEN
    PERFORM apns.refuse(p_element, 'app', CASE WHEN app IS NULL THEN 'it is missing' ELSE 'unknown app' END,
      'The relay has ' || coalesce((SELECT string_agg(a.name, ', ' ORDER BY a.name) FROM apns.app a), 'none') || '.');
  END IF;
  IF v_app.is_full THEN
    RAISE EXCEPTION 'the app % has reached its capacity of % pushes', app, v_app.capacity
      USING ERRCODE = '53400', HINT = 'Try again later. The setting is app.' || app || '.capacity of the relays.';
  END IF;
  v_environment := coalesce(v_environment, v_app.default_environment);
  IF v_environment IS NULL OR v_environment <> ALL (v_app.environments) THEN
    PERFORM apns.refuse(p_element, 'environment', 'missing, or not one of the app',
      'Pass one of ' || array_to_string(v_app.environments, ', ') || '.');
  END IF;
  IF coalesce(lane, 'interactive') NOT IN ('interactive', 'bulk') THEN
    PERFORM apns.refuse(p_element, 'lane', 'expected interactive or bulk', 'Leave it out for interactive.');
  END IF;
  v_push.route := apns.route_id(app, v_environment, CASE WHEN lane = 'bulk' THEN 1 ELSE 0 END::smallint,
    'sql:' || session_user);

  IF token IS NULL THEN
    PERFORM apns.refuse(p_element, 'token', 'it is missing', 'Pass the device token in hexadecimal.');
  END IF;
  IF token !~ '^([0-9a-fA-F]{2})+$' OR length(token) > 1000 THEN
    PERFORM apns.refuse(p_element, 'token', 'expected an even number of hexadecimal digits, at most 1,000',
      'Pass the device token in hexadecimal, without blanks.');
  END IF;
  v_push.token := decode(token, 'hex');

  IF push_type !~ '^[!-~]{1,64}$' THEN
    PERFORM apns.refuse(p_element, 'push_type', 'expected 1 to 64 visible ASCII characters', 'For example alert.');
  END IF;
  v_push.type := push_type;
  SELECT * INTO v_type FROM apns.push_type t WHERE t.name = push_type;
  v_push.topic := coalesce(topic, v_app.topic || coalesce(v_type.topic_suffix, ''));
  IF v_push.topic <> v_app.topic AND NOT starts_with(v_push.topic, v_app.topic || '.')
    OR v_push.topic !~ '^[!-~]+$' OR length(v_push.topic) > 1000
    OR right(v_push.topic, length(v_type.topic_suffix)) <> v_type.topic_suffix
  THEN
    PERFORM apns.refuse(p_element, 'topic', 'not a topic of this app and push type',
      'Leave it out for ' || v_app.topic || coalesce(v_type.topic_suffix, '') || '.');
  END IF;

  IF payload IS NULL OR json_typeof(payload) <> 'object' THEN
    PERFORM apns.refuse(p_element, 'payload', CASE WHEN payload IS NULL THEN 'it is missing' ELSE 'expected a JSON object' END, 'For example {"aps": {"alert": "Hello"}}.');
  END IF;
  v_push.payload := convert_to(payload::text, 'UTF8');
  IF length(v_push.payload) > coalesce(v_type.payload_limit, 4096) THEN
    PERFORM apns.refuse(p_element, 'payload', format('%s bytes; at most %s are allowed', length(v_push.payload),
      coalesce(v_type.payload_limit, 4096)), 'Shorten it. The relay sends it byte for byte, with its blanks.');
  END IF;

  IF priority NOT IN (1, 5, 10) OR priority <> ALL (v_type.priorities) THEN
    PERFORM apns.refuse(p_element, 'priority', format('APNs does not accept %s for this push type', priority),
      'Leave it out, or pass one of ' || coalesce(array_to_string(v_type.priorities, ', '), '1, 5, 10') || '.');
  END IF;
  v_push.priority := priority;
  v_push.expiration := apns.milliseconds(p_element, 'expiration', expiration) / 1000;
  IF v_push.expiration > 99999999999 THEN
    PERFORM apns.refuse(p_element, 'expiration', 'expected a time before the year 5138', 'Leave it out for Apple''s default.');
  END IF;
  IF octet_length(collapse_id) NOT BETWEEN 1 AND 64 OR collapse_id !~ '^[!-~]([ -~]*[!-~])?$' THEN
    PERFORM apns.refuse(p_element, 'collapse_id', 'expected 1 to 64 ASCII characters without blanks at either end',
      'Shorten it, or pass a digest of it.');
  END IF;
  v_push.collapse := collapse_id;

  -- 0 is due for every relay, whatever its clock says.
  v_push.due := CASE WHEN v_not_before > p_now THEN v_not_before ELSE 0 END;
  v_push.deadline := coalesce(v_deadline, p_now + v_intake.default_deadline);
  IF v_push.deadline > p_now + v_intake.max_deadline THEN
    PERFORM apns.refuse(p_element, 'deadline', 'too far ahead',
      format('The relay keeps a push for at most %s.', make_interval(secs => v_intake.max_deadline / 1000)));
  END IF;
  IF v_push.deadline <= p_now AND idempotency_key IS NULL AND apns_id IS NULL THEN
    PERFORM apns.refuse(p_element, 'deadline', 'expected a time in the future',
      'Leave it out for the default of the relay.');
  END IF;
  IF v_not_before >= v_push.deadline THEN
    PERFORM apns.refuse(p_element, 'not_before', 'expected a time before the deadline', 'Set a later deadline, too.');
  END IF;
  v_push.expires := CASE WHEN v_push.expiration > 0
    THEN least(v_push.deadline, v_push.expiration * 1000) ELSE v_push.deadline END;

  IF octet_length(idempotency_key) NOT BETWEEN 1 AND 128 OR idempotency_key ~ '[\u0001-\u001f\u007f]' THEN
    PERFORM apns.refuse(p_element, 'idempotency_key', 'expected 1 to 128 bytes without control characters', 'Shorten it.');
  END IF;
  IF octet_length(supersedes) NOT BETWEEN 1 AND 128 OR supersedes ~ '[\u0001-\u001f\u007f]' THEN
    PERFORM apns.refuse(p_element, 'supersedes', 'expected 1 to 128 bytes without control characters', 'Shorten it.');
  END IF;
  v_push.supersedes := supersedes;
  v_push.resends := resend_unknown;
  IF metadata IS NOT NULL AND (json_typeof(metadata) <> 'object' OR octet_length(metadata::text) > 512) THEN
    PERFORM apns.refuse(p_element, 'metadata', 'expected a JSON object of at most 512 bytes', 'For example {"order": "4711"}.');
  END IF;
  v_push.metadata := metadata::text;
  v_push.id := coalesce(apns_id, gen_random_uuid());
  v_push.key := coalesce(idempotency_key, apns_id::text);
  IF v_push.key IS NOT NULL THEN
    v_push.digest := sha256(convert_to(json_build_array('sql', app, environment, lane, lower(token), push_type, topic,
      payload, priority, v_push.expiration, collapse_id, apns_id, v_not_before, v_deadline, supersedes, resend_unknown,
      metadata)::text, 'UTF8'));
  END IF;
  RETURN v_push;
END $$;

-- Stores checked pushes. Returns their ids; the known ones of duplicates.
CREATE FUNCTION apns.store_checked(p_now bigint, p_push apns.new_push[]) RETURNS uuid[] LANGUAGE plpgsql AS $$
DECLARE
  v_ids uuid[] := ARRAY(SELECT p.id FROM unnest(p_push) WITH ORDINALITY p ORDER BY p.ordinality);
  v_kinds smallint[];
  v_known uuid[];
  v_conflict int;
BEGIN
  SELECT s.kinds, s.known INTO v_kinds, v_known FROM apns.store(p_now, false, NULL, p_push) s;
  v_conflict := array_position(v_kinds, 2::smallint);
  IF v_conflict IS NOT NULL THEN
    RAISE EXCEPTION 'another push has this idempotency key or id: %', v_known[v_conflict]
        || CASE WHEN cardinality(p_push) > 1 THEN ' (element ' || v_conflict || ' of pushes)' ELSE '' END
      USING ERRCODE = '23505',
        COLUMN = CASE WHEN v_known[v_conflict] = p_push[v_conflict].id THEN 'apns_id' ELSE 'idempotency_key' END,
        HINT = 'A repetition must have the same arguments as the first call; payload and metadata byte for byte.';
  END IF;
  IF v_kinds IS NULL THEN RETURN v_ids; END IF;
  RETURN ARRAY(SELECT coalesce(u.known, u.id) FROM unnest(v_ids, v_known) WITH ORDINALITY AS u(id, known, n) ORDER BY n);
END $$;

-- Stores a push, and returns its id (apns-id). It is sent after the caller's transaction has been committed. The arguments
-- are those of the relay's HTTP API, with times as timestamps. expiration => 'epoch' is the apns-expiration 0.
CREATE FUNCTION apns.enqueue(
  app text, token text, payload json, push_type text DEFAULT 'alert', environment text DEFAULT NULL,
  topic text DEFAULT NULL, priority int DEFAULT NULL, expiration timestamptz DEFAULT NULL,
  collapse_id text DEFAULT NULL, apns_id uuid DEFAULT NULL, idempotency_key text DEFAULT NULL,
  not_before timestamptz DEFAULT NULL, deadline timestamptz DEFAULT NULL, lane text DEFAULT NULL,
  supersedes text DEFAULT NULL, resend_unknown boolean DEFAULT false, metadata json DEFAULT NULL
) RETURNS uuid LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_variable
DECLARE
  v_now bigint := apns.lease_clock();
BEGIN
  RETURN (apns.store_checked(v_now, ARRAY[apns.checked(v_now, NULL, app, token, payload, push_type, environment, topic,
    priority, expiration, collapse_id, apns_id, idempotency_key, not_before, deadline, lane, supersedes,
    resend_unknown, metadata)]))[1];
END $$;

-- A time of an element of apns.enqueue_many; NULL if it is not given.
CREATE FUNCTION apns.time_member(p_element int, p_name text, p_text text) RETURNS timestamptz LANGUAGE plpgsql AS $$
BEGIN
  IF p_text IS NULL THEN RETURN NULL; END IF;
  BEGIN
    RETURN p_text::timestamptz;
  EXCEPTION WHEN data_exception THEN
    PERFORM apns.refuse(p_element, p_name, 'expected a time',
      'Pass a time such as "2027-01-01T12:00:00Z". Seconds since 1970 become one by to_timestamp.');
  END;
END $$;

-- Checks an element of apns.enqueue_many.
CREATE FUNCTION apns.checked_element(p_now bigint, p_element int, p_push json) RETURNS apns.new_push
LANGUAGE plpgsql AS $$
DECLARE
  v_names text[] := ARRAY['app', 'token', 'payload', 'push_type', 'environment', 'topic', 'priority', 'expiration',
    'collapse_id', 'apns_id', 'idempotency_key', 'not_before', 'deadline', 'lane', 'supersedes', 'resend_unknown',
    'metadata'];
  v_seen text[] := '{}';
  v_name text;
  v_type text;
  v_expected text;
BEGIN
  IF json_typeof(p_push) <> 'object' THEN
    PERFORM apns.refuse(p_element, 'pushes', 'expected a JSON array of objects',
      'Each object has the names of the arguments of apns.enqueue.');
  END IF;
  FOR v_name, v_type IN SELECT e.key, json_typeof(e.value) FROM json_each(p_push) e LOOP
    IF v_name <> ALL (v_names) THEN
      PERFORM apns.refuse(p_element, 'pushes', 'unknown member ' || v_name,
        'Expected only ' || array_to_string(v_names, ', ') || '.');
    END IF;
    IF v_name = ANY (v_seen) THEN
      PERFORM apns.refuse(p_element, v_name, 'this member must occur only once', 'Remove one of them.');
    END IF;
    v_seen := v_seen || v_name;
    -- apns.checked checks payload and metadata.
    v_expected := CASE WHEN v_name IN ('payload', 'metadata') THEN v_type WHEN v_name = 'priority' THEN 'number'
      WHEN v_name = 'resend_unknown' THEN 'boolean' ELSE 'string' END;
    IF v_type NOT IN (v_expected, 'null') THEN
      PERFORM apns.refuse(p_element, v_name, 'expected a ' || v_expected || ', not ' || v_type, CASE
        WHEN v_name IN ('expiration', 'not_before', 'deadline') AND v_type = 'number'
        THEN 'Pass a time such as "2027-01-01T12:00:00Z". Seconds since 1970 become one by to_timestamp.'
        ELSE 'Leave it out for the default.' END);
    END IF;
  END LOOP;
  IF p_push ->> 'priority' !~ '^[0-9]{1,4}$' THEN
    PERFORM apns.refuse(p_element, 'priority', 'expected a whole number', 'Leave it out, or pass 10, 5 or 1.');
  END IF;
  IF p_push ->> 'apns_id' !~ '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$' THEN
    PERFORM apns.refuse(p_element, 'apns_id', 'expected a UUID of 8-4-4-4-12 hexadecimal digits',
      'Leave it out for a random one.');
  END IF;
  RETURN apns.checked(p_now, p_element, p_push ->> 'app', p_push ->> 'token', p_push -> 'payload',
    p_push ->> 'push_type', p_push ->> 'environment', p_push ->> 'topic', (p_push ->> 'priority')::int,
    apns.time_member(p_element, 'expiration', p_push ->> 'expiration'), p_push ->> 'collapse_id',
    (p_push ->> 'apns_id')::uuid, p_push ->> 'idempotency_key',
    apns.time_member(p_element, 'not_before', p_push ->> 'not_before'),
    apns.time_member(p_element, 'deadline', p_push ->> 'deadline'), coalesce(p_push ->> 'lane', 'bulk'),
    p_push ->> 'supersedes', (p_push ->> 'resend_unknown')::boolean, p_push -> 'metadata');
EXCEPTION WHEN untranslatable_character OR invalid_text_representation THEN
  -- PostgreSQL decodes all strings of a value when it looks for a member.
  PERFORM apns.refuse(p_element, 'pushes', 'a string has \u0000, or half of a surrogate pair',
    'Only apns.enqueue can store such a payload.');
END $$;

-- Stores many pushes: a JSON array of objects with the names of apns.enqueue's arguments. All of them are stored, or none.
-- Their lane is bulk unless they name one. Returns their ids in order. NULL, which json_agg makes of no rows, is no push.
CREATE FUNCTION apns.enqueue_many(pushes json) RETURNS uuid[] LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_variable
DECLARE
  v_now bigint := apns.lease_clock();
  v_checked apns.new_push[];
BEGIN
  IF coalesce(json_typeof(pushes), 'null') = 'null' THEN RETURN '{}'; END IF;
  IF json_typeof(pushes) <> 'array' THEN
    PERFORM apns.refuse(NULL, 'pushes', 'expected a JSON array of objects',
      'Each object has the names of the arguments of apns.enqueue.');
  END IF;
  v_checked := ARRAY(SELECT apns.checked_element(v_now, e.n::int, e.value)
    FROM json_array_elements(pushes) WITH ORDINALITY AS e(value, n) ORDER BY e.n);
  IF v_checked = '{}' THEN RETURN '{}'; END IF;
  RETURN apns.store_checked(v_now, v_checked);
END $$;

-- Settled pushes in the order of the feed.
CREATE VIEW apns.outcomes AS
SELECT o.cursor, o.id, r.app, r.environment, CASE r.lane WHEN 0 THEN 'interactive' ELSE 'bulk' END AS lane,
  nullif(r.batch, '00000000-0000-0000-0000-000000000000') AS batch, c.name AS caller, encode(o.token, 'hex') AS token,
  (ARRAY['not-sent', 'not-processed', 'rejected', 'unknown', 'accepted'])[o.certainty + 1] AS outcome,
  o.result #>> '{error,code}' AS code, CASE WHEN o.certainty = 4 THEN 200 ELSE (o.result #>> '{error,rejection,status}')::int END AS status,
  o.result #>> '{error,rejection,reason}' AS reason, o.result #>> '{error,message}' AS message, o.attempts,
  o.invalidates AS invalidates_token, i.key AS idempotency_key, o.metadata::json AS metadata, to_timestamp(o.queued_at / 1000.0) AS queued_at,
  to_timestamp(o.settled_at / 1000.0) AS settled_at
FROM apns.outcome o JOIN apns.route r ON r.id = o.route JOIN apns.caller c ON c.id = r.caller
LEFT JOIN apns.idempotency i ON i.position = o.position;
