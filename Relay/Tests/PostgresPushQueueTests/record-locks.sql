-- Records in which order each transaction waits for the places of pushes and for the end of the feed, and finds those that
-- break the lock order of schema/queue.sql.

CREATE TABLE public.locked (
  n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, transaction xid8 NOT NULL, kind text NOT NULL, position bigint,
  context text NOT NULL -- the statement, and the functions that have called it
);

-- A trigger for each changed row runs when the row is locked.
CREATE FUNCTION public.record_lock() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  v_context text;
BEGIN
  GET DIAGNOSTICS v_context = PG_CONTEXT;
  v_context := split_part(v_context, 'GET DIAGNOSTICS', 2);
  -- Such a statement waits for nobody. One that finds rows by their ctid has locked them so before. A history may begin in
  -- another order.
  IF split_part(v_context, 'PL/pgSQL function', 1) !~ 'SKIP LOCKED|ctid = ANY' AND v_context !~ 'apns.begin_history' THEN
    INSERT INTO public.locked (transaction, kind, position, context)
    VALUES (pg_current_xact_id(), TG_TABLE_NAME, (to_jsonb(OLD) ->> 'position')::bigint, v_context);
  END IF;
  IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
  RETURN NEW;
END $$;

CREATE TRIGGER record BEFORE UPDATE OR DELETE ON apns.queue FOR EACH ROW EXECUTE FUNCTION public.record_lock();
CREATE TRIGGER record BEFORE UPDATE OR DELETE ON apns.flight FOR EACH ROW EXECUTE FUNCTION public.record_lock();
CREATE TRIGGER record BEFORE UPDATE OR DELETE ON apns.parked FOR EACH ROW EXECUTE FUNCTION public.record_lock();
CREATE TRIGGER record BEFORE UPDATE ON apns.feed FOR EACH ROW EXECUTE FUNCTION public.record_lock();

CREATE VIEW public.broken_lock_order AS
WITH l AS (
  SELECT l.*, l.context ~ 'apns.withdraw|flight f WHERE' AS is_late FROM public.locked l),
o AS (
  SELECT l.*, lag(l.position) OVER (PARTITION BY l.transaction, l.kind, l.is_late ORDER BY l.n) AS previous,
    bool_or(l.kind = 'feed') OVER (PARTITION BY l.transaction ORDER BY l.n) AS has_feed
  FROM l)
SELECT format('%s %s after the feed: %s', o.kind, o.position, o.context) AS fault FROM o
WHERE o.has_feed AND o.kind <> 'feed'
UNION ALL
-- An outcome of a claim that has ended finds its push wherever it is.
SELECT format('%s %s after %s: %s', o.kind, o.position, o.previous, o.context) FROM o
WHERE o.kind IN ('flight', 'parked') AND o.position < o.previous AND NOT o.is_late;
