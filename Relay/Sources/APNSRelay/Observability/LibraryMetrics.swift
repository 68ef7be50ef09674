/// The metrics of swift-apns-pool (Docs/Operations.md), with their help texts for the export.
enum LibraryMetrics {
    static let table: [MetricDefinition] = [
        .init("apns_pushes_total", .counter, unit: "pushes", "Pushes that ended in the client."),
        .init("apns_pushes_in_flight", .gauge, unit: "pushes", "Single pushes and bulk calls without an outcome."),
        .init("apns_resends_total", .counter, unit: "pushes", "Resends of pushes."),
        .init("apns_queue_depth", .gauge, unit: "waiters", "Waiters for a stream."),
        .init("apns_queue_bytes", .gauge, unit: "bytes", "Payload bytes of pushes that wait for a stream."),
        .init("apns_queue_time", .histogram, unit: "seconds", "Time that pushes wait for a stream."),
        .init("apns_connect_time", .histogram, unit: "seconds", "Time until a connection accepts pushes."),
        .init("apns_response_time", .histogram, unit: "seconds", "The response time of APNs."),
        .init("apns_connections", .gauge, unit: "connections", "Connections by state."),
        .init("apns_connections_degraded", .gauge, unit: "connections", "Connections that carry less because of 503."),
        .init("apns_connects_total", .counter, unit: "connections", "Connections that became ready."),
        .init("apns_reconnects_total", .counter, unit: "connections", "Ready connections that replaced another."),
        .init("apns_connection_losses_total", .counter, unit: "connections", "Connections lost, and failed connects."),
        .init("apns_streams_leased", .gauge, unit: "streams", "Streams in use."),
        .init("apns_streams_capacity", .gauge, unit: "streams", "Capacity of all ready connections."),
        .init(
            "apns_restarts_total",
            .counter,
            unit: "restarts",
            "Parts of the client that crashed and were restarted."
        ),
        .init("apns_health", .gauge, unit: "0 or 1", "1 for the current state of the client."),
        .init("apns_health_cause", .gauge, unit: "0 or 1", "1 for the cause of the client's current state."),
        .init("apns_misconfiguration_suspected", .gauge, unit: "0 or 1", "1 while most device tokens are refused."),
        .init("apns_provider_token_age_seconds", .gauge, unit: "seconds", "Time since the provider token was signed."),
        .init("apns_certificate_days_left", .gauge, unit: "days", "Days until the client certificate expires."),
    ]
}
