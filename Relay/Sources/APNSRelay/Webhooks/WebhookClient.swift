import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import Synchronization

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Posts requests to webhooks. Redirects are not followed, and certificates are verified.
final class WebhookClient: Sendable {
    /// How a request ended.
    enum Response: Sendable, Hashable {
        /// With a status, and with the wait that the receiver asks for.
        case status(Int, retryAfter: Duration?)
        /// Without a status within the timeout.
        case timeout
        /// Without a status, because the connection failed or was lost.
        case failed(String)
    }

    private final class Head: Sendable {
        let response = Mutex<Response?>(nil)
    }

    /// The maximum number of bytes of a response's body that are read and ignored. Without reading the body, the
    /// connection could not be used again.
    private static let maxBodyBytes = 4_096

    private let client: HTTPClient

    /// - Parameter tls: the verification of receivers' certificates; nil for the system's authorities.
    init(tls: TLSConfiguration? = nil) {
        var configuration = HTTPClient.Configuration(tlsConfiguration: tls, redirectConfiguration: .disallow)
        configuration.httpVersion = .automatic
        configuration.timeout.connect = .seconds(10)
        // `WebhookMachine` decides when to try again.
        configuration.connectionPool.retryConnectionEstablishment = false
        self.client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }

    /// Closes all connections. Call it once, after the last request.
    func shutDown() async {
        // This throws only if it was called before.
        try? await self.client.shutdown()
    }

    /// Posts a body.
    ///
    /// - Parameters:
    ///   - url: the receiver.
    ///   - headers: the headers, without those of the connection.
    ///   - body: the body.
    ///   - timeout: the time limit of the request, at most an hour.
    func post(_ url: String, headers: [(String, String)], body: [UInt8], timeout: Duration) async -> Response {
        guard Self.isValid(url) else {
            return .failed("the webhook's URL is not valid: it needs http or https, a host, and a port up to 65535")
        }
        let timeout = min(max(timeout, .milliseconds(1)), .seconds(3_600))
        var request = HTTPClientRequest(url: url)
        request.method = .POST
        for (name, value) in headers { request.headers.add(name: name, value: value) }
        request.body = .bytes(ByteBuffer(bytes: body))
        let head = Head()
        let failure = await withTaskGroup(of: Response.self) { [client, request] group in
            group.addTask { await Self.perform(request, client, timeout, head) }
            group.addTask {
                // Also limits how long the response's body may take.
                try? await Task.sleep(for: timeout)
                return .timeout
            }
            let first = await group.next() ?? .timeout
            group.cancelAll()
            return first
        }
        return head.response.withLock { $0 } ?? failure
    }

    /// Whether a URL can be used. AsyncHTTPClient traps at a port above 65535.
    static func isValid(_ url: String) -> Bool {
        guard let url = URL(string: url), let scheme = url.scheme?.lowercased(), let host = url.host else {
            return false
        }
        return ["http", "https"].contains(scheme) && !host.isEmpty && (1...65_535).contains(url.port ?? 443)
    }

    /// Performs the request.
    ///
    /// - Parameter head: receives the status as soon as it arrives, because it counts even if the body never ends.
    /// - Returns: the result if no status has arrived.
    private static func perform(
        _ request: HTTPClientRequest,
        _ client: HTTPClient,
        _ timeout: Duration,
        _ head: Head
    ) async -> Response {
        do {
            let response = try await client.execute(request, timeout: TimeAmount(timeout))
            let wait = response.headers.first(name: "retry-after").flatMap { Self.retryAfter($0, now: Date()) }
            head.response.withLock { $0 = .status(Int(response.status.code), retryAfter: wait) }
            var received = 0
            for try await part in response.body {
                received += part.readableBytes
                if received > Self.maxBodyBytes { break }
            }
            return .timeout
        } catch let error as HTTPClientError where Self.timeouts.contains(error) {
            return .timeout
        } catch {
            return .failed(String("\(error)".prefix(200)))
        }
    }

    private static let timeouts: [HTTPClientError] = [
        .deadlineExceeded, .readTimeout, .writeTimeout, .connectTimeout, .tlsHandshakeTimeout,
        .getConnectionFromPoolTimeout,
    ]

    /// The wait in a `retry-after` header, which is a number of seconds or a date (RFC 9110); nil if it is neither.
    static func retryAfter(_ value: String, now: Date) -> Duration? {
        if let seconds = Int64(value) { return seconds < 0 ? nil : .seconds(seconds) }
        // Sun, 06 Nov 1994 08:49:37 GMT
        let parts = value.split(whereSeparator: { " :,".contains($0) })
        guard parts.count == 8, parts[7] == "GMT", let day = Int(parts[1]), let year = Int(parts[3]),
            let month = Self.months.firstIndex(of: String(parts[2])), let hour = Int(parts[4]),
            let minute = Int(parts[5]), let second = Int(parts[6])
        else { return nil }
        var components = DateComponents()
        (components.year, components.month, components.day) = (year, month + 1, day)
        (components.hour, components.minute, components.second) = (hour, minute, second)
        guard let utc = TimeZone(secondsFromGMT: 0) else { return nil }
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = utc
        guard let date = calendar.date(from: components) else { return nil }
        let seconds = date.timeIntervalSince(now)
        guard seconds.isFinite, seconds.magnitude < 1e12 else { return nil }
        return .milliseconds(Int64(max(0, seconds) * 1_000))
    }

    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]
}
