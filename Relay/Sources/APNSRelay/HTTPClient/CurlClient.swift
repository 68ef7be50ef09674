import CLibcurl
import Dispatch
import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// An HTTP client for one request at a time. Connections stay open between requests. Redirects are not followed, and
/// certificates are verified.
///
/// Owns a multi handle of libcurl, with the easy handle of the present request.
///
/// `@unchecked Sendable`: the handle is used only on `queue`, where one request follows the other. The exception is
/// `curl_multi_wakeup`, which may be called from any thread (libcurl-thread(3)).
final class CurlClient: @unchecked Sendable {
    struct Request: Sendable {
        enum Body: Sendable {
            case none
            case bytes([UInt8])
            /// The parts of a body of unknown length, until `nil`. Its errors end the request.
            case parts(@Sendable () throws -> [UInt8]?)
        }

        let url: String
        /// `.none` is a GET; the others are a POST.
        var body = Body.none
        /// Without those of the connection.
        var headers: [(String, String)] = []
        /// The time limit, at most a day. Waiting for earlier requests does not count.
        var timeout: Duration
        /// The number of bytes of a response's body after which it is cut off.
        var maxResponseBytes: Int
    }

    struct Response: Sendable {
        let status: Int
        /// The wait that the server asks for (RFC 9110, section 10.2.3); nil if it does not ask, zero if the time is past or
        /// not readable.
        let retryAfter: Duration?
        /// The header `location`.
        let location: String?
        let body: [UInt8]
        /// Whether the body has arrived whole.
        let isComplete: Bool
    }

    /// Why there is no response.
    enum Failure: Error, CustomStringConvertible {
        case timeout
        case cancelled
        case failed(String)

        var description: String {
            switch self {
            case .timeout: "there was no response in time"
            case .cancelled: "the request was cancelled"
            case .failed(let text): text
            }
        }
    }

    private final class Cancellation: Sendable {
        let isCancelled = Atomic(false)
    }

    private static let connectTimeout = 10_000
    private static let maxTimeout = Duration.seconds(86_400)

    /// Done once for the process. With CURLOPT_NOSIGNAL, libcurl does not suppress SIGPIPE, so the process ignores it.
    private static let isInitialised: Bool = {
        signal(SIGPIPE, SIG_IGN)
        return curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK
    }()

    private let multi: UnsafeMutableRawPointer?
    private let queue = DispatchQueue(label: "CurlClient")
    private let authorities: String?

    /// - Parameter authorities: the authorities (PEM) of servers' certificates; nil for the system's.
    init(authorities: String? = nil) {
        self.multi = Self.isInitialised ? curl_multi_init() : nil
        self.authorities = authorities
    }

    deinit { curl_multi_cleanup(self.multi) }

    /// Whether a URL can be requested: http or https, with a host and a valid port.
    static func isValid(_ url: String) -> Bool {
        guard let handle = curl_url() else { return false }
        defer { curl_url_cleanup(handle) }
        guard curl_url_set(handle, CURLUPART_URL, url, 0) == CURLUE_OK else { return false }
        var scheme: UnsafeMutablePointer<CChar>?
        guard curl_url_get(handle, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK, let scheme else { return false }
        defer { curl_free(scheme) }
        return ["http", "https"].contains(String(cString: scheme))
    }

    /// Performs a request, after those that were begun before.
    ///
    /// - Throws: `Failure` if there is no status within the time limit, or an error of the body. A status counts also if
    ///   the response's body is too long or does not end.
    func perform(_ request: Request) async throws -> Response {
        let cancellation = Cancellation()
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                self.queue.async {
                    continuation.resume(with: Result { try self.perform(request, cancellation) })
                }
            }
        } onCancel: {
            cancellation.isCancelled.store(true, ordering: .releasing)
            curl_multi_wakeup(self.multi)
        }
    }

    private func perform(_ request: Request, _ cancellation: Cancellation) throws -> Response {
        let transfer = Transfer(request)
        defer { withExtendedLifetime(transfer) {} }
        guard let multi, let easy = curl_easy_init() else { throw Failure.failed("libcurl is out of memory") }
        defer { curl_easy_cleanup(easy) }
        let headers = self.configure(easy, request, transfer)
        defer { curl_slist_free_all(headers) }
        curl_multi_add_handle(multi, easy)
        defer { curl_multi_remove_handle(multi, easy) }
        var running: Int32 = 1
        while !cancellation.isCancelled.load(ordering: .acquiring) {
            let code = curl_multi_perform(multi, &running)
            guard code == CURLM_OK else { throw Failure.failed(String(cString: curl_multi_strerror(code))) }
            if running == 0 { return try Self.response(multi, easy, transfer) }
            // Returns at once if there was a wake-up since the last call.
            curl_multi_poll(multi, nil, 0, 1_000, nil)
        }
        throw Failure.cancelled
    }

    /// - Returns: The headers, which are to be freed after the request.
    private func configure(
        _ easy: UnsafeMutableRawPointer,
        _ request: Request,
        _ transfer: Transfer
    ) -> UnsafeMutablePointer<curl_slist>? {
        relay_curl_set_pointer(easy, CURLOPT_URL, request.url)
        relay_curl_set_long(easy, CURLOPT_PROTOCOLS, Int(CURLPROTO_HTTP | CURLPROTO_HTTPS))
        // Not even one in the environment.
        relay_curl_set_pointer(easy, CURLOPT_PROXY, "")
        relay_curl_set_long(easy, CURLOPT_NOSIGNAL, 1)
        relay_curl_abandon_lookups(easy)
        relay_curl_set_pointer(easy, CURLOPT_ERRORBUFFER, transfer.errorText)
        let timeout = min(max(request.timeout, .milliseconds(1)), Self.maxTimeout)
        relay_curl_set_long(easy, CURLOPT_TIMEOUT_MS, max(1, Int(timeout / .milliseconds(1))))
        relay_curl_set_long(easy, CURLOPT_CONNECTTIMEOUT_MS, Self.connectTimeout)
        if let authorities {
            relay_curl_set_authorities(easy, authorities, authorities.utf8.count)
        }
        // No "Expect: 100-continue", which only delays.
        var headers = curl_slist_append(nil, "Expect:")
        for (name, value) in request.headers { headers = curl_slist_append(headers, "\(name): \(value)") }
        let context = Unmanaged.passUnretained(transfer).toOpaque()
        switch request.body {
        case .none: break
        case .bytes(let bytes):
            relay_curl_set_long(easy, CURLOPT_POST, 1)
            relay_curl_set_size(easy, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(bytes.count))
            // An empty array has no address, and none would mean a body from the read function.
            _ = bytes.withUnsafeBytes {
                relay_curl_set_pointer(easy, CURLOPT_COPYPOSTFIELDS, $0.baseAddress ?? UnsafeRawPointer(context))
            }
        case .parts:
            headers = curl_slist_append(headers, "Transfer-Encoding: chunked")
            relay_curl_set_long(easy, CURLOPT_POST, 1)
            // If a reused connection turns out to be closed, libcurl repeats the request. This body cannot be sent twice.
            relay_curl_set_long(easy, CURLOPT_FRESH_CONNECT, 1)
            relay_curl_set_pointer(easy, CURLOPT_READDATA, context)
            relay_curl_set_function(easy, CURLOPT_READFUNCTION) { space, size, count, context in
                Transfer.with(context) {
                    $0.read(into: UnsafeMutableRawBufferPointer(start: space, count: size * count))
                }
            }
        }
        relay_curl_set_pointer(easy, CURLOPT_HTTPHEADER, headers)
        relay_curl_set_pointer(easy, CURLOPT_WRITEDATA, context)
        relay_curl_set_function(easy, CURLOPT_WRITEFUNCTION) { bytes, size, count, context in
            Transfer.with(context) { $0.write(UnsafeRawBufferPointer(start: bytes, count: size * count)) }
        }
        relay_curl_set_pointer(easy, CURLOPT_HEADERDATA, context)
        relay_curl_set_function(easy, CURLOPT_HEADERFUNCTION) { bytes, size, count, context in
            Transfer.with(context) { $0.readHeader(UnsafeRawBufferPointer(start: bytes, count: size * count)) }
        }
        return headers
    }

    private static func response(
        _ multi: UnsafeMutableRawPointer,
        _ easy: UnsafeMutableRawPointer,
        _ transfer: Transfer
    ) throws -> Response {
        var remaining: Int32 = 0
        guard let message = curl_multi_info_read(multi, &remaining) else {
            throw Failure.failed("libcurl ended the request without a result")
        }
        let result = message.pointee.data.result
        if let error = transfer.error { throw error }
        let status = relay_curl_status(easy)
        // Interim responses are below.
        guard status >= 200 else {
            if result == CURLE_OPERATION_TIMEDOUT { throw Failure.timeout }
            let text = String(cString: transfer.errorText)
            throw Failure.failed(text.isEmpty ? String(cString: curl_easy_strerror(result)) : text)
        }
        return Response(
            status: status,
            retryAfter: transfer.hasRetryAfter ? .seconds(max(0, relay_curl_retry_after(easy))) : nil,
            location: transfer.location,
            body: transfer.received,
            isComplete: result == CURLE_OK
        )
    }
}

/// The bodies of one request and its response. Confined to the queue of the client.
private final class Transfer {
    /// The error of the request's body.
    private(set) var error: (any Error)?
    private(set) var received: [UInt8] = []
    /// Whether the response has the header `retry-after`.
    private(set) var hasRetryAfter = false
    private(set) var location: String?
    /// What went wrong, as libcurl writes it (CURLOPT_ERRORBUFFER(3)).
    let errorText = UnsafeMutablePointer<CChar>.allocate(capacity: Int(CURL_ERROR_SIZE))
    private let maxResponseBytes: Int
    private let body: CurlClient.Request.Body
    private var part: ArraySlice<UInt8> = []

    init(_ request: CurlClient.Request) {
        self.body = request.body
        self.maxResponseBytes = request.maxResponseBytes
        self.errorText.initialize(repeating: 0, count: Int(CURL_ERROR_SIZE))
    }

    deinit { self.errorText.deallocate() }

    static func with(_ context: UnsafeMutableRawPointer?, _ body: (Transfer) -> Int) -> Int {
        guard let context else { return 0 }
        return Unmanaged<Transfer>.fromOpaque(context)._withUnsafeGuaranteedRef(body)
    }

    /// The number of bytes; 0 at the end of the body (CURLOPT_READFUNCTION(3)).
    func read(into space: UnsafeMutableRawBufferPointer) -> Int {
        do {
            if self.part.isEmpty, case .parts(let next) = self.body, let part = try next() { self.part = part[...] }
        } catch {
            self.error = error
            return relay_curl_read_abort
        }
        let count = min(space.count, self.part.count)
        space.copyBytes(from: self.part.prefix(count))
        self.part.removeFirst(count)
        return count
    }

    /// Called with each line of the headers, and with those of interim responses before.
    func readHeader(_ line: UnsafeRawBufferPointer) -> Int {
        let name = String(decoding: line.prefix { $0 != UInt8(ascii: ":") }, as: UTF8.self).lowercased()
        if name.hasPrefix("http/") { (self.hasRetryAfter, self.location) = (false, nil) }
        if name == "retry-after" { self.hasRetryAfter = true }
        if name == "location" {
            let value = String(decoding: line.dropFirst(name.utf8.count + 1), as: UTF8.self)
            self.location = String(value.filter { !$0.isWhitespace }.prefix(500))
        }
        return line.count
    }

    /// Any other number than that of the bytes ends the request (CURLOPT_WRITEFUNCTION(3)).
    func write(_ bytes: UnsafeRawBufferPointer) -> Int {
        guard self.received.count + bytes.count <= self.maxResponseBytes else { return 0 }
        self.received += bytes
        return bytes.count
    }
}
