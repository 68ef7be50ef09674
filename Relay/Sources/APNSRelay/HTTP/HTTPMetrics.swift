import HTTPTypes
import Metrics
import Synchronization

/// Counts requests by endpoint (the label `route`) and status, with the size of their bodies and the time to the
/// response.
final class HTTPMetrics: Sendable {
    static let requests = "apns_relay_http_requests_total"
    static let duration = "apns_relay_http_request_duration_seconds"
    static let receivedBytes = "apns_relay_http_received_bytes_total"
    static let sentBytes = "apns_relay_http_sent_bytes_total"

    private struct Key: Hashable {
        var route: String
        var status: Int
    }

    private struct Handlers: Sendable {
        var requests: Counter
        var duration: Recorder
        var receivedBytes: Counter
        var sentBytes: Counter
    }

    private let factory: any MetricsFactory
    private let handlers = Mutex<[Key: Handlers]>([:])

    init(factory: any MetricsFactory) {
        self.factory = factory
    }

    /// Counts a request that got its response.
    ///
    /// - Parameters:
    ///   - route: the method and the template of the path, never the path itself.
    ///   - status: the status of the response.
    ///   - received: the number of bytes that were read of the request's body.
    ///   - sent: the number of bytes of the response's body.
    ///   - duration: the time from the request's head to the response.
    func count(route: String, status: HTTPResponse.Status, received: Int, sent: Int, duration: Duration) {
        let handlers = self.handlers(Key(route: route, status: status.code))
        handlers.requests.increment()
        handlers.receivedBytes.increment(by: max(0, received))
        handlers.sentBytes.increment(by: max(0, sent))
        handlers.duration.record(duration / .seconds(1))
    }

    private func handlers(_ key: Key) -> Handlers {
        self.handlers.withLock { handlers in
            if let known = handlers[key] { return known }
            let route = [("route", key.route)]
            let made = Handlers(
                requests: Counter(
                    label: Self.requests,
                    dimensions: route + [("status", String(key.status))],
                    factory: self.factory
                ),
                duration: Recorder(label: Self.duration, dimensions: route, aggregate: true, factory: self.factory),
                receivedBytes: Counter(label: Self.receivedBytes, dimensions: route, factory: self.factory),
                sentBytes: Counter(label: Self.sentBytes, dimensions: route, factory: self.factory)
            )
            handlers[key] = made
            return made
        }
    }
}
