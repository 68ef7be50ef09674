extension RelayMetrics {
    private static let route = ["app", "environment", "lane"]

    /// Every metric of the relay, in the order of the documentation.
    static let table: [MetricDefinition] = [
        .counter("apns_relay_queued_total", "pushes", route)
            .means("Pushes stored by requests."),
        .counter("apns_relay_duplicates_total", "pushes", route)
            .means("Pushes that requests submitted again. They were not stored a second time."),
        .counter("apns_relay_outcomes_total", "pushes", ["app", "environment", "outcome"])
            .means("Pushes that ended, by outcome: accepted, rejected, not-processed, not-sent or unknown."),
        .counter("apns_relay_retries_total", "attempts", route)
            .means("Attempts after which a push returned to the queue."),
        .counter("apns_relay_parked_total", "pushes", route)
            .means(
                "Pushes that were parked, because an operator must retry or drop them. Those that apns-relay restored "
                    + "parks are not counted."
            ),
        .counter("apns_relay_late_outcomes_total", "outcomes", route)
            .means("Outcomes that were not stored, because the push already had an outcome or its claim had ended."),
        .counter("apns_relay_recovered_total", "pushes", ["result"])
            .means(
                "Pushes whose lease expired, at the start or later, by result: queued again (queued), ended as unknown "
                    + "(unknown), or queued again at their owner's request although they may have been processed (resent)."
            ),
        .gauge("apns_relay_pushes", "pushes", route + ["state"])
            .means(
                "Pushes without an outcome, by state: queued, claimed, written or parked. Written pushes are in flight, "
                    + "and end as unknown if the process dies."
            ),
        .gauge("apns_relay_queue_capacity", "pushes")
            .means(
                "The maximum number of pushes without an outcome. At the limit, requests get 503. Missing if there is no "
                    + "limit."
            ),
        .gauge("apns_relay_caller_capacity_used", "0 to 1", ["caller"])
            .means(
                "The part of its capacity (caller.NAME.capacity) that the caller uses. At 1, its requests get 429. "
                    + "Missing for callers without a capacity."
            ),
        .gauge("apns_relay_oldest_due_age_seconds", "seconds", route)
            .means("The time since the oldest queued push outside of batches became due; 0 if none is due."),
        .gauge("apns_relay_route_paused", "0 or 1", route)
            .means(
                "1 from an error of the whole route until a push proves that it is gone, and while its app is paused."
            ),
        .gauge("apns_relay_ready", "0 or 1")
            .means("1 while the relay accepts pushes, as /ready reports it."),
        .gauge("apns_relay_problem", "0 or 1", ["cause"])
            .means(
                "1 while this cause keeps pushes from being delivered (credential, apns, configuration, rejections, "
                    + "batch, storage) or accepted (disk), or outcomes from a webhook (webhook: no acknowledgement for an hour, or a position "
                    + "that cannot be read)."
            ),
        .gauge("apns_relay_certificate_left_seconds", "seconds")
            .means(
                "The time until the certificate of the relay's listener expires; negative afterwards. Exported only with "
                    + "TLS."
            ),
        .gauge("apns_relay_clock_ahead_seconds", "seconds")
            .means(
                "How far the clock is ahead of what is plausible; 0 if it is plausible. While it is ahead, no push "
                    + "expires and nothing is deleted."
            ),
        .gauge("apns_relay_settings_current", "0 or 1")
            .means(
                "1 if the settings that were read last apply; 0 if they have an error, so that the ones before them apply."
            ),
        .histogram("apns_relay_commit_time", "seconds")
            .means("The duration of a transaction and its commit, until the commit is durable."),
        .histogram("apns_relay_commit_group_size", "calls", buckets: MetricDefinition.counts)
            .means("The number of calls of the queue in one commit."),
        .counter("apns_relay_storage_errors_total", "errors", ["code"])
            .means("Calls of the queue that failed, by code: full, unavailable, undecided, unusable or closed."),
        .gauge("apns_relay_file_bytes", "bytes", ["file"])
            .means(
                "The sizes of the queue's files: the database, and its write-ahead log (log). Only with a queue in a file."
            ),
        .gauge("apns_relay_disk_free_bytes", "bytes")
            .means("The free space on the disk with the queue's file."),
        .gauge("apns_relay_disk_size_bytes", "bytes")
            .means("The size of the disk with the queue's file."),
        .gauge("apns_relay_database_oldest_transaction_seconds", "seconds", ["holder"])
            .means(
                "The age of the oldest transaction whose view of the data keeps the server from removing deleted rows, by "
                    + "its holder: session, prepared, slot or standby; 0 if there is none."
            ),
        .gauge("apns_relay_database_table_bytes", "bytes", ["table"])
            .means("The size of each table of the queue, with its indexes and TOAST."),
        .gauge("apns_relay_database_table_rows", "rows", ["table", "state"])
            .means(
                "The server's estimate of the rows of each table of the queue, by state: live, or dead (deleted or "
                    + "replaced, and not removed yet)."
            ),
        .counter("apns_relay_webhook_requests_total", "requests", ["webhook", "result"])
            .means(
                "Requests to webhooks by result: acknowledged (2xx), refused (another status), timeout, or failed (no "
                    + "connection)."
            ),
        .counter("apns_relay_webhook_lost_outcomes_total", "outcomes", ["webhook"])
            .means(
                "Outcomes that were deleted before the webhook acknowledged them: the outage exceeded the retention."
            ),
        .gauge("apns_relay_webhook_lag_seconds", "seconds", ["webhook"])
            .means("The age of the oldest outcome that the webhook has yet to acknowledge; 0 if there is none."),
        .gauge("apns_relay_webhook_failures", "attempts", ["webhook"])
            .means("Failed attempts of the webhook's current request."),
        .gauge("apns_relay_fleet_members", "relays")
            .means("The number of relays that share the queue, as this relay sees it."),
        .gauge("apns_relay_posts_webhooks", "0 or 1")
            .means(
                "1 while this relay is the one that posts to the webhooks: the oldest of those that share the queue."
            ),
        .counter("apns_relay_http_requests_total", "requests", ["route", "status"])
            .means("Requests to the relay by route (the method and the template of the path) and status."),
        .histogram("apns_relay_http_request_duration_seconds", "seconds", ["route"])
            .means("The time from a request's head to its response."),
        .counter("apns_relay_http_received_bytes_total", "bytes", ["route"])
            .means("The size of the bodies of requests."),
        .counter("apns_relay_http_sent_bytes_total", "bytes", ["route"])
            .means("The size of the bodies of responses."),
    ]
}
