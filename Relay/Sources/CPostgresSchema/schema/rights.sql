-- Nobody but the owner may call a function, unless a role gets the right to. The functions that relays and other programs call
-- have a fixed search_path, and the plans of those that relays call never depend on statistics.
DO $$
DECLARE
  v_function regprocedure;
BEGIN
  FOR v_function IN
    SELECT oid FROM pg_proc WHERE pronamespace = 'apns'::regnamespace
  LOOP
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', v_function);
    IF v_function::text ~ '^apns\.(store|claim|mark|settle|release|park|expire_leases|settle_overdue|cancel_all|batch_counts|forget_route|tend|queued_routes|cancel|status|outcomes_after|parked_after|decide_parked|counts|route_id|id_of_key|exchange_value|prune|progress|begin_history|intake_heads)\(' THEN
      EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan '
        'SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off '
        'SET enable_mergejoin = off SET jit = off', v_function);
    ELSIF v_function::text ~ '^apns\.(publish_intake|publish_full|refuse|checked|store_checked|enqueue|enqueue_many)\(' THEN
      EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, pg_temp', v_function);
    END IF;
  END LOOP;
END $$;
