import APNSSimulator
import Foundation
import PushQueueConformance
import Synchronization
import Testing

@testable import APNSRelay

struct CurlClientTests {
    private static func request(
        _ url: String,
        body: CurlClient.Request.Body = .bytes(Array("{}".utf8)),
        timeout: Duration = Patience.limit,
        maxResponseBytes: Int = 4_096
    ) -> CurlClient.Request {
        CurlClient.Request(url: url, body: body, timeout: timeout, maxResponseBytes: maxResponseBytes)
    }

    @Test("A body that is too long is cut off, and the next request works")
    func longBody() async throws {
        let script: @Sendable (Int, WebhookReceiver.Delivery) -> WebhookReceiver.Reply = { number, _ in
            number.isMultiple(of: 2) ? .endless(202, fast: true) : .status(204)
        }
        try await WebhookReceiver.run(script) { receiver in
            let client = CurlClient()
            for _ in 0..<3 {
                let long = try await client.perform(Self.request(receiver.url))
                #expect(long.status == 202 && !long.isComplete && long.body.count <= 4_096)
                let next = try await client.perform(Self.request(receiver.url))
                #expect(next.status == 204 && next.isComplete && next.body.isEmpty)
            }
        }
    }

    @Test("A wait that the server asks for is seconds or a date; one that cannot be read counts as zero")
    func retryAfter() async throws {
        let date = Date(timeIntervalSinceNow: 3_600).formatted(
            .verbatim(
                """
                \(weekday: .abbreviated), \(day: .twoDigits) \(month: .abbreviated) \(year: .defaultDigits) \
                \(hour: .twoDigits(clock: .twentyFourHour, hourCycle: .zeroBased)):\(minute: .twoDigits):\
                \(second: .twoDigits) GMT
                """,
                locale: Locale(identifier: "en_US_POSIX"),
                timeZone: .gmt,
                calendar: Calendar(identifier: .gregorian)
            )
        )
        let values = ["7", "0", date, "Sun, 06 Nov 1994 08:49:37 GMT", "soon", ""]
        let script: @Sendable (Int, WebhookReceiver.Delivery) -> WebhookReceiver.Reply = { number, _ in
            values.indices.contains(number) ? .status(429, ["Retry-After": values[number]]) : .status(429)
        }
        try await WebhookReceiver.run(script) { receiver in
            let client = CurlClient()
            var waits: [Duration?] = []
            for _ in 0...values.count { waits.append(try await client.perform(Self.request(receiver.url)).retryAfter) }
            #expect(waits[0] == .seconds(7) && waits[1] == .zero && waits[3] == .zero && waits[4] == .zero)
            #expect(waits[5] == .zero && waits[6] == nil)
            let wait = try #require(waits[2])
            #expect((.seconds(3_500)...(.seconds(3_600))).contains(wait))
        }
    }

    @Test("A cancelled request ends at once, and the next one works")
    func cancellation() async throws {
        let script: @Sendable (Int, WebhookReceiver.Delivery) -> WebhookReceiver.Reply = { number, _ in
            number == 0 ? .hang : .status(204)
        }
        try await WebhookReceiver.run(script) { receiver in
            let client = CurlClient()
            let task = Task { try await client.perform(Self.request(receiver.url, timeout: .seconds(3_600))) }
            try await receiver.waitFor(1)
            // This one waits for the first.
            let second = Task { try await client.perform(Self.request(receiver.url, timeout: .seconds(3_600))) }
            task.cancel()
            await #expect(throws: CurlClient.Failure.self) { try await task.value }
            #expect(try await second.value.status == 204)
            let third = Task {
                withUnsafeCurrentTask { $0?.cancel() }
                return try await client.perform(Self.request(receiver.url))
            }
            await #expect(throws: CurlClient.Failure.self) { try await third.value }
        }
    }

    @Test("A body in parts is sent whole; its error ends the request, and the next one works")
    func parts() async throws {
        struct Broken: Error {}
        try await WebhookReceiver.run { receiver in
            let client = CurlClient()
            for count in [0, 1, 7] {
                let file = Parts(count)
                let response = try await client.perform(Self.request(receiver.url, body: .parts { file.next() }))
                #expect(response.status == 204)
                #expect(receiver.deliveries.last?.body.count == count * 100_000)
            }
            await #expect(throws: Broken.self) {
                try await client.perform(Self.request(receiver.url, body: .parts { throw Broken() }))
            }
            #expect(try await client.perform(Self.request(receiver.url)).status == 204)
        }
    }

    private final class Parts: Sendable {
        private let left: Mutex<Int>

        init(_ count: Int) { self.left = Mutex(count) }

        func next() -> [UInt8]? {
            let isThere = self.left.withLock { left in
                defer { left -= 1 }
                return left > 0
            }
            return isThere ? [UInt8](repeating: 120, count: 100_000) : nil
        }
    }

    @Test("Without a response, the error says why")
    func failures() async throws {
        let client = CurlClient()
        await #expect(throws: CurlClient.Failure.self) { try await client.perform(Self.request("ftp://127.0.0.1/")) }
        let refused = await #expect(throws: CurlClient.Failure.self) {
            try await client.perform(Self.request("http://127.0.0.1:1/"))
        }
        #expect("\(try #require(refused))".contains("127.0.0.1 port 1"), "\(String(describing: refused))")
        try await WebhookReceiver.run({ _, _ in .hang }) { receiver in
            let late = await #expect(throws: CurlClient.Failure.self) {
                try await client.perform(Self.request(receiver.url, timeout: .milliseconds(200)))
            }
            guard case .timeout = try #require(late) else {
                Issue.record("\(String(describing: late))")
                return
            }
        }
        let simulator = try await Simulator.start()
        let untrusted = await #expect(throws: CurlClient.Failure.self) {
            try await client.perform(Self.request("https://localhost:\(simulator.port)/"))
        }
        #expect("\(try #require(untrusted))".contains("certificate problem"), "\(String(describing: untrusted))")
        // The simulator speaks only HTTP/2.
        let trusting = CurlClient(authorities: simulator.certificateAuthorityPEM)
        #expect(try await trusting.perform(Self.request("https://localhost:\(simulator.port)/")).status >= 400)
        await simulator.stop()
    }

    @Test("A URL needs http or https, a host and a valid port")
    func urls() {
        for url in ["http://a", "https://a.example:8443/b?c=d", "HTTPS://[::1]:1/"] { #expect(CurlClient.isValid(url)) }
        for url in ["", "a", "ftp://a", "http://", "http://a:99999", "http://a b"] { #expect(!CurlClient.isValid(url)) }
    }
}
