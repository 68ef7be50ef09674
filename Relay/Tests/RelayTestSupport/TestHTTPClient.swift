import CLibcurl
import Dispatch
import Foundation
package import NIOHTTP1
import PushQueueConformance
import Synchronization

/// An HTTP client for tests and benchmarks, on libcurl. It does not verify the certificates of servers.
///
/// Any number of requests can run at a time, each on a connection of its own. Connections stay open for later requests.
package final class TestHTTPClient: Sendable {
    package struct Response: Sendable {
        package var status: Int
        package var headers: HTTPHeaders
        package var body: [UInt8]

        package var text: String { String(decoding: self.body, as: UTF8.self) }

        package func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
            try JSONDecoder().decode(type, from: Data(self.body))
        }
    }

    /// Why there is no response.
    package struct Failure: Error, CustomStringConvertible {
        package var description: String
        /// Whether the server's certificate has another key than `publicKeyPin`.
        package var isOtherKey = false
    }

    /// The certificate that the client presents, in PEM form.
    package struct Certificate: Sendable {
        let chain: [UInt8]
        let key: [UInt8]

        package init(chain: String, key: String) {
            self.chain = Array(chain.utf8)
            self.key = Array(key.utf8)
        }
    }

    package static let shared = TestHTTPClient()

    private let certificate: Certificate?
    private let publicKeyPin: String?
    private let idle = Mutex<[Lane]>([])

    /// - Parameters:
    ///   - certificate: the certificate that the client presents; nil for none.
    ///   - publicKeyPin: the key that the server's certificate must have, as CURLOPT_PINNEDPUBLICKEY(3) writes it; nil for
    ///     any key.
    package init(certificate: Certificate? = nil, publicKeyPin: String? = nil) {
        self.certificate = certificate
        self.publicKeyPin = publicKeyPin
    }

    /// - Throws: `Failure` if the response does not arrive whole within the time limit. A request whose task is cancelled
    ///   ends at once.
    package func send(
        _ method: HTTPMethod,
        _ url: String,
        headers: HTTPHeaders = [:],
        body: [UInt8]? = nil,
        timeout: Duration = Patience.limit
    ) async throws -> Response {
        let lane = self.idle.withLock { $0.popLast() } ?? Lane()
        defer { self.idle.withLock { $0.append(lane) } }
        let (certificate, pin) = (self.certificate, self.publicKeyPin)
        return try await lane.perform { easy in
            set(easy, CURLOPT_URL, url)
            set(easy, CURLOPT_CUSTOMREQUEST, method.rawValue)
            relay_curl_set_long(easy, CURLOPT_NOBODY, method == .HEAD ? 1 : 0)
            relay_curl_set_long(easy, CURLOPT_TIMEOUT_MS, Int(timeout / .milliseconds(1)))
            set(easy, CURLOPT_PINNEDPUBLICKEY, pin)
            if let certificate {
                set(easy, CURLOPT_SSLCERT_BLOB, blob: certificate.chain)
                set(easy, CURLOPT_SSLKEY_BLOB, blob: certificate.key)
            }
            if let body = body ?? ([.POST, .PUT, .PATCH].contains(method) ? [] : nil) {
                relay_curl_set_long(easy, CURLOPT_POST, 1)
                relay_curl_set_size(easy, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(body.count))
                // An empty array has no address, and none would mean a body from the read function.
                set(easy, CURLOPT_COPYPOSTFIELDS, body.isEmpty ? [0] : body)
            }
            // Without a value: libcurl would add a type of its own, and "Expect: 100-continue", which only delays.
            var list = curl_slist_append(nil, "Expect:")
            if !headers.contains(name: "content-type") { list = curl_slist_append(list, "Content-Type:") }
            for (name, value) in headers {
                list = curl_slist_append(list, value.isEmpty ? "\(name);" : "\(name): \(value)")
            }
            relay_curl_set_pointer(easy, CURLOPT_HTTPHEADER, list)
            return list
        }
    }
}

private func set(_ easy: UnsafeMutableRawPointer, _ option: CURLoption, _ text: String?) {
    relay_curl_set_pointer(easy, option, text)
}

private func set(_ easy: UnsafeMutableRawPointer, _ option: CURLoption, _ bytes: [UInt8]) {
    relay_curl_set_pointer(easy, option, bytes)
}

/// libcurl copies the bytes.
private func set(_ easy: UnsafeMutableRawPointer, _ option: CURLoption, blob bytes: [UInt8]) {
    var bytes = bytes
    bytes.withUnsafeMutableBytes {
        var blob = curl_blob(data: $0.baseAddress, len: $0.count, flags: UInt32(CURL_BLOB_COPY))
        relay_curl_set_pointer(easy, option, &blob)
    }
}

/// A thread for one request at a time, with the connections that it keeps open.
///
/// `@unchecked Sendable`: the handle is used only on `queue`. The exception is `curl_multi_wakeup`, which may be called from
/// any thread (libcurl-thread(3)).
private final class Lane: @unchecked Sendable {
    /// Done once for the process. With CURLOPT_NOSIGNAL, libcurl does not suppress SIGPIPE, so the process ignores it.
    private static let isInitialised: Bool = {
        signal(SIGPIPE, SIG_IGN)
        return curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK
    }()

    private final class Cancellation: Sendable {
        let isCancelled = Atomic(false)
    }

    private let multi = Lane.isInitialised ? curl_multi_init() : nil
    private let queue = DispatchQueue(label: "TestHTTPClient")

    deinit { curl_multi_cleanup(self.multi) }

    /// - Parameter configure: describes the request, and returns its headers.
    func perform(
        _ configure: @escaping @Sendable (UnsafeMutableRawPointer) -> UnsafeMutablePointer<curl_slist>?
    ) async throws -> TestHTTPClient.Response {
        let cancellation = Cancellation()
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                self.queue.async {
                    continuation.resume(with: Result { try self.perform(configure, cancellation) })
                }
            }
        } onCancel: {
            cancellation.isCancelled.store(true, ordering: .releasing)
            curl_multi_wakeup(self.multi)
        }
    }

    private func perform(
        _ configure: (UnsafeMutableRawPointer) -> UnsafeMutablePointer<curl_slist>?,
        _ cancellation: Cancellation
    ) throws -> TestHTTPClient.Response {
        let received = ReceivedBytes()
        defer { withExtendedLifetime(received) {} }
        guard let multi = self.multi, let easy = curl_easy_init() else {
            throw TestHTTPClient.Failure(description: "libcurl is out of memory")
        }
        defer { curl_easy_cleanup(easy) }
        relay_curl_set_long(easy, CURLOPT_NOSIGNAL, 1)
        // Not even a proxy in the environment.
        relay_curl_set_pointer(easy, CURLOPT_PROXY, "")
        relay_curl_set_long(easy, CURLOPT_SSL_VERIFYPEER, 0)
        relay_curl_set_long(easy, CURLOPT_SSL_VERIFYHOST, 0)
        let context = Unmanaged.passUnretained(received).toOpaque()
        relay_curl_set_pointer(easy, CURLOPT_WRITEDATA, context)
        relay_curl_set_function(easy, CURLOPT_WRITEFUNCTION) { bytes, size, count, context in
            ReceivedBytes.with(context) { $0.body += UnsafeRawBufferPointer(start: bytes, count: size * count) }
            return size * count
        }
        relay_curl_set_pointer(easy, CURLOPT_HEADERDATA, context)
        relay_curl_set_function(easy, CURLOPT_HEADERFUNCTION) { bytes, size, count, context in
            ReceivedBytes.with(context) { $0.readHeader(UnsafeRawBufferPointer(start: bytes, count: size * count)) }
            return size * count
        }
        let headers = configure(easy)
        defer { curl_slist_free_all(headers) }
        curl_multi_add_handle(multi, easy)
        defer { curl_multi_remove_handle(multi, easy) }
        var running: Int32 = 1
        while !cancellation.isCancelled.load(ordering: .acquiring) {
            curl_multi_perform(multi, &running)
            if running == 0 { break }
            // Returns at once if there was a wake-up since the last call.
            curl_multi_poll(multi, nil, 0, 1_000, nil)
        }
        var remaining: Int32 = 0
        guard let message = curl_multi_info_read(multi, &remaining) else { throw CancellationError() }
        let result = message.pointee.data.result
        guard result == CURLE_OK else {
            throw TestHTTPClient.Failure(
                description: String(cString: curl_easy_strerror(result)),
                isOtherKey: result == CURLE_SSL_PINNEDPUBKEYNOTMATCH
            )
        }
        return TestHTTPClient.Response(
            status: relay_curl_status(easy),
            headers: received.headers,
            body: received.body
        )
    }
}

/// What has arrived of one response.
private final class ReceivedBytes {
    var body: [UInt8] = []
    var headers = HTTPHeaders()

    static func with(_ context: UnsafeMutableRawPointer?, _ body: (ReceivedBytes) -> Void) {
        guard let context else { return }
        Unmanaged<ReceivedBytes>.fromOpaque(context)._withUnsafeGuaranteedRef(body)
    }

    /// Called with each line of the headers, and with those of interim responses before.
    func readHeader(_ line: UnsafeRawBufferPointer) {
        let text = String(decoding: line, as: UTF8.self)
        if text.hasPrefix("HTTP/") { self.headers = [:] }
        guard let colon = text.firstIndex(of: ":") else { return }
        let value = text[text.index(after: colon)...].trimmingCharacters(in: .whitespacesAndNewlines)
        self.headers.add(name: String(text[..<colon]), value: value)
    }
}
