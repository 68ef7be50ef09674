extension RelayMetrics {
    private static let route = ["app", "environment", "lane"]

    // MARK: Pushes

    static let queued = MetricDefinition(
        "apns_relay_queued_total",
        .counter,
        unit: "pushes",
        "Pushes stored by requests.",
        labels: RelayMetrics.route
    )
    static let duplicates = MetricDefinition(
        "apns_relay_duplicates_total",
        .counter,
        unit: "pushes",
        "Pushes that requests submitted again. They were not stored a second time.",
        labels: RelayMetrics.route
    )
    static let outcomes = MetricDefinition(
        "apns_relay_outcomes_total",
        .counter,
        unit: "pushes",
        "Pushes that ended, by outcome: accepted, rejected, not-processed, not-sent or unknown.",
        labels: ["app", "environment", "outcome"]
    )
    static let retries = MetricDefinition(
        "apns_relay_retries_total",
        .counter,
        unit: "attempts",
        "Attempts after which a push returned to the queue.",
        labels: RelayMetrics.route
    )
    static let parked = MetricDefinition(
        "apns_relay_parked_total",
        .counter,
        unit: "pushes",
        "Pushes that were parked, because an operator must retry or drop them.",
        labels: RelayMetrics.route
    )
    static let late = MetricDefinition(
        "apns_relay_late_outcomes_total",
        .counter,
        unit: "outcomes",
        "Outcomes that were not stored, because the push already had an outcome or its claim had ended.",
        labels: RelayMetrics.route
    )
    static let recovered = MetricDefinition(
        "apns_relay_recovered_total",
        .counter,
        unit: "pushes",
        "Pushes whose lease expired, at the start or later, by result: queued again (queued), ended as unknown "
            + "(unknown), or queued again at their owner's request although they may have been processed (resent).",
        labels: ["result"]
    )

    // MARK: Queue

    static let pushes = MetricDefinition(
        "apns_relay_pushes",
        .gauge,
        unit: "pushes",
        "Pushes without an outcome, by state: queued, claimed, written or parked. Written pushes are in flight, and "
            + "end as unknown if the process dies.",
        labels: RelayMetrics.route + ["state"]
    )
    static let capacity = MetricDefinition(
        "apns_relay_queue_capacity",
        .gauge,
        unit: "pushes",
        "The maximum number of pushes without an outcome. At the limit, requests get 503. Missing if there is no limit."
    )
    static let callerUse = MetricDefinition(
        "apns_relay_caller_capacity_used",
        .gauge,
        unit: "0 to 1",
        "The part of its capacity (caller.NAME.capacity) that the caller uses. At 1, its requests get 429. Missing for "
            + "callers without a capacity.",
        labels: ["caller"]
    )
    static let oldestDue = MetricDefinition(
        "apns_relay_oldest_due_age_seconds",
        .gauge,
        unit: "seconds",
        "The time since the oldest queued push became due; 0 if none is due.",
        labels: RelayMetrics.route
    )
    static let routePaused = MetricDefinition(
        "apns_relay_route_paused",
        .gauge,
        unit: "0 or 1",
        "1 from an error of the whole route until a push proves that it is gone, and while its app is paused.",
        labels: RelayMetrics.route
    )
    static let ready = MetricDefinition(
        "apns_relay_ready",
        .gauge,
        unit: "0 or 1",
        "1 while the relay accepts pushes, as /ready reports it."
    )

    static let problem = MetricDefinition(
        "apns_relay_problem",
        .gauge,
        unit: "0 or 1",
        "1 while this cause keeps pushes from being delivered (credential, apns, configuration, rejections, storage) or accepted "
            + "(disk), or outcomes from a webhook (webhook: no acknowledgement for an hour).",
        labels: ["cause"]
    )

    static let certificateLeft = MetricDefinition(
        "apns_relay_certificate_left_seconds",
        .gauge,
        unit: "seconds",
        "The time until the certificate of the relay's listener expires; negative afterwards. Exported only with TLS."
    )
    static let settingsCurrent = MetricDefinition(
        "apns_relay_settings_current",
        .gauge,
        unit: "0 or 1",
        "1 if the settings that were read last apply; 0 if they have an error, so that the ones before them apply."
    )
    static let clockAhead = MetricDefinition(
        "apns_relay_clock_ahead_seconds",
        .gauge,
        unit: "seconds",
        "How far the clock is ahead of what is plausible; 0 if it is plausible. While it is ahead, no push expires and "
            + "nothing is deleted."
    )

    // MARK: Storage

    static let commitTime = MetricDefinition(
        "apns_relay_commit_time",
        .histogram,
        unit: "seconds",
        "The duration of a transaction and its commit, until the commit is durable."
    )
    static let commitGroup = MetricDefinition(
        "apns_relay_commit_group_size",
        .histogram,
        unit: "calls",
        "The number of calls of the queue in one commit.",
        buckets: MetricDefinition.counts
    )
    static let storageErrors = MetricDefinition(
        "apns_relay_storage_errors_total",
        .counter,
        unit: "errors",
        "Calls of the queue that failed, by code: full, unavailable, undecided, unusable or closed.",
        labels: ["code"]
    )

    // MARK: Database

    static let databaseOldest = MetricDefinition(
        "apns_relay_database_oldest_transaction_seconds",
        .gauge,
        unit: "seconds",
        "The age of the oldest transaction whose view of the data keeps the server from removing deleted rows, by its "
            + "holder: session, prepared, slot or standby; 0 if there is none.",
        labels: ["holder"]
    )
    static let databaseTableBytes = MetricDefinition(
        "apns_relay_database_table_bytes",
        .gauge,
        unit: "bytes",
        "The size of each table of the queue, with its indexes and TOAST.",
        labels: ["table"]
    )
    static let databaseTableRows = MetricDefinition(
        "apns_relay_database_table_rows",
        .gauge,
        unit: "rows",
        "The server's estimate of the rows of each table of the queue, by state: live, or dead (deleted or replaced, and "
            + "not removed yet).",
        labels: ["table", "state"]
    )
    static let fileBytes = MetricDefinition(
        "apns_relay_file_bytes",
        .gauge,
        unit: "bytes",
        "The sizes of the queue's files: the database, and its write-ahead log (log). Only with a queue in a file.",
        labels: ["file"]
    )
    static let diskFree = MetricDefinition(
        "apns_relay_disk_free_bytes",
        .gauge,
        unit: "bytes",
        "The free space on the disk with the queue's file."
    )
    static let diskSize = MetricDefinition(
        "apns_relay_disk_size_bytes",
        .gauge,
        unit: "bytes",
        "The size of the disk with the queue's file."
    )
    // MARK: Webhooks

    static let webhookRequests = MetricDefinition(
        "apns_relay_webhook_requests_total",
        .counter,
        unit: "requests",
        "Requests to webhooks by result: acknowledged (2xx), refused (another status), timeout, or failed (no "
            + "connection).",
        labels: ["webhook", "result"]
    )
    static let webhookLost = MetricDefinition(
        "apns_relay_webhook_lost_outcomes_total",
        .counter,
        unit: "outcomes",
        "Outcomes that were deleted before the webhook acknowledged them: the outage exceeded the retention.",
        labels: ["webhook"]
    )
    static let webhookLag = MetricDefinition(
        "apns_relay_webhook_lag_seconds",
        .gauge,
        unit: "seconds",
        "The age of the oldest outcome that the webhook has yet to acknowledge; 0 if there is none.",
        labels: ["webhook"]
    )
    static let webhookFailures = MetricDefinition(
        "apns_relay_webhook_failures",
        .gauge,
        unit: "attempts",
        "Failed attempts of the webhook's current request.",
        labels: ["webhook"]
    )

    // MARK: Fleet

    static let fleetMembers = MetricDefinition(
        "apns_relay_fleet_members",
        .gauge,
        unit: "relays",
        "The number of relays that share the queue, as this relay sees it."
    )
    static let postsWebhooks = MetricDefinition(
        "apns_relay_posts_webhooks",
        .gauge,
        unit: "0 or 1",
        "1 while this relay is the one that posts to the webhooks: the oldest of those that share the queue."
    )
    // MARK: HTTP

    static let httpRequests = MetricDefinition(
        "apns_relay_http_requests_total",
        .counter,
        unit: "requests",
        "Requests to the relay by route (the method and the template of the path) and status.",
        labels: ["route", "status"]
    )
    static let httpTime = MetricDefinition(
        "apns_relay_http_request_duration_seconds",
        .histogram,
        unit: "seconds",
        "The time from a request's head to its response.",
        labels: ["route"]
    )
    static let httpReceived = MetricDefinition(
        "apns_relay_http_received_bytes_total",
        .counter,
        unit: "bytes",
        "The size of the bodies of requests.",
        labels: ["route"]
    )
    static let httpSent = MetricDefinition(
        "apns_relay_http_sent_bytes_total",
        .counter,
        unit: "bytes",
        "The size of the bodies of responses.",
        labels: ["route"]
    )

    /// Every metric of the relay, in the order of the documentation.
    static let table: [MetricDefinition] = [
        RelayMetrics.queued, RelayMetrics.duplicates, RelayMetrics.outcomes, RelayMetrics.retries, RelayMetrics.parked,
        RelayMetrics.late, RelayMetrics.recovered,
        RelayMetrics.pushes, RelayMetrics.capacity, RelayMetrics.callerUse,
        RelayMetrics.oldestDue, RelayMetrics.routePaused,
        RelayMetrics.ready, RelayMetrics.problem, RelayMetrics.certificateLeft, RelayMetrics.clockAhead,
        RelayMetrics.settingsCurrent,
        RelayMetrics.commitTime, RelayMetrics.commitGroup, RelayMetrics.storageErrors,
        RelayMetrics.fileBytes, RelayMetrics.diskFree, RelayMetrics.diskSize,
        RelayMetrics.databaseOldest, RelayMetrics.databaseTableBytes, RelayMetrics.databaseTableRows,
        RelayMetrics.webhookRequests, RelayMetrics.webhookLost, RelayMetrics.webhookLag, RelayMetrics.webhookFailures,
        RelayMetrics.fleetMembers, RelayMetrics.postsWebhooks,
        RelayMetrics.httpRequests, RelayMetrics.httpTime, RelayMetrics.httpReceived, RelayMetrics.httpSent,
    ]
}
