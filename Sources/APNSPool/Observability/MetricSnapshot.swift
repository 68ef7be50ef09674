import APNSModel
import SupervisedPool

/// One value of one metric. Docs/Operations.md describes names, labels and units; a test compares them.
struct MetricSample: Sendable, Hashable {
    enum Value: Sendable, Hashable {
        /// The sum since the client was created.
        case counter(Int)
        case gauge(Double)
        /// The nanoseconds of each measurement since the last export.
        case timer([Int64])
    }

    var name: String
    /// The labels in addition to those of all metrics.
    var labels: [Label]
    var value: Value

    struct Label: Sendable, Hashable {
        var name: String
        var value: String
    }

    init(_ name: String, _ labels: KeyValuePairs<String, String> = [:], _ value: Value) {
        self.name = name
        self.labels = labels.map { Label(name: $0.key, value: $0.value) }
        self.value = value
    }
}

/// The exported values of a client at one moment. Pure.
struct MetricSnapshot: Sendable {
    var status: APNSClientStatus
    var pushes: [PushCounters.Key: Int] = [:]
    var reconnects = 0
    /// Nil without a provider token.
    var providerTokenAge: Duration?
    /// The time until the client certificate expires; nil without one.
    var certificateSecondsLeft: Int64?
    /// In nanoseconds.
    var queueTimes: [Int64] = []
    var connectTimes: [Int64] = []
    var responseTimes: [Int64] = []

    static let connectionStates = ["ready", "connecting", "draining", "backing-off", "idle"]
    static let healthStates = ["starting", "serving", "degraded", "failing", "stopped"]

    var samples: [MetricSample] {
        self.pushSamples + self.connectionSamples + self.credentialSamples
            + Self.healthStates.map {
                MetricSample("apns_health", ["state": $0], .gauge($0 == self.status.health.name ? 1 : 0))
            }
            + APNSHealth.Cause.Code.known.map {
                MetricSample(
                    "apns_health_cause",
                    ["cause": $0.rawValue],
                    .gauge($0 == self.status.health.cause?.code ? 1 : 0)
                )
            }
            + [
                MetricSample("apns_restarts_total", .counter(self.status.restarts)),
                MetricSample("apns_queue_time", .timer(self.queueTimes)),
                MetricSample("apns_connect_time", .timer(self.connectTimes)),
                MetricSample("apns_response_time", .timer(self.responseTimes)),
            ]
    }

    private var pushSamples: [MetricSample] {
        let bulk = self.status.pool.bulkQueueDepth
        return self.pushes.map { key, count in
            MetricSample(
                "apns_pushes_total",
                ["type": key.type, "outcome": key.outcome.rawValue, "reason": key.reason],
                .counter(count)
            )
        } + [
            MetricSample("apns_pushes_in_flight", .gauge(Double(self.status.pushesInFlight))),
            MetricSample("apns_resends_total", .counter(self.status.resends)),
            MetricSample(
                "apns_queue_depth",
                ["lane": "interactive"],
                .gauge(Double(self.status.pool.queueDepth - bulk))
            ),
            MetricSample("apns_queue_depth", ["lane": "bulk"], .gauge(Double(bulk))),
            MetricSample("apns_queue_bytes", .gauge(Double(self.status.pool.queuedBytes))),
            MetricSample("apns_misconfiguration_suspected", .gauge(self.status.suspectsMisconfiguration ? 1 : 0)),
        ]
    }

    private var connectionSamples: [MetricSample] {
        var states: [String: Int] = [:]
        for worker in self.status.pool.workers { states[Self.name(worker.state), default: 0] += 1 }
        return Self.connectionStates.map {
            MetricSample("apns_connections", ["state": $0], .gauge(Double(states[$0] ?? 0)))
        } + [
            MetricSample("apns_connections_degraded", .gauge(Double(self.status.degradedConnections))),
            MetricSample("apns_connects_total", .counter(self.status.connects)),
            MetricSample("apns_reconnects_total", .counter(self.reconnects)),
            MetricSample("apns_connection_losses_total", .counter(self.status.connectionLosses)),
            MetricSample("apns_streams_leased", .gauge(Double(self.status.pool.leased))),
            MetricSample("apns_streams_capacity", .gauge(Double(self.status.pool.capacity))),
        ]
    }

    private var credentialSamples: [MetricSample] {
        var samples: [MetricSample] = []
        if let age = self.providerTokenAge {
            samples.append(MetricSample("apns_provider_token_age_seconds", .gauge(age / .seconds(1))))
        }
        if let left = self.certificateSecondsLeft {
            samples.append(MetricSample("apns_certificate_days_left", .gauge(Double(left) / 86_400)))
        }
        return samples
    }

    private static func name(_ state: PoolStatus.Worker.State) -> String {
        switch state {
        case .absent, .idle: "idle"
        case .connecting: "connecting"
        case .ready: "ready"
        case .draining: "draining"
        case .backingOff: "backing-off"
        }
    }
}

extension MetricSample {
    init(_ name: String, _ value: Value) { self.init(name, [:], value) }
}
