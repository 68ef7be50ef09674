import APNSModel
import APNSSimulator
import Crypto
import Foundation
import Logging
import PushQueue
import PushQueueConformance
import SupervisedPool
import Testing

@testable import APNSRelay

struct WebhooksTests {
    /// The delays of the relay, shorter.
    private static let retry = {
        var retry = WebhookMachine.Retry()
        retry.delays = Backoff(.doubling(), minimum: .milliseconds(10), maximum: .milliseconds(20))
        retry.storageDelay = .milliseconds(10)
        retry.poll = .milliseconds(50)
        return retry
    }()

    private static func settings(
        _ url: String,
        name: String = "crm",
        secrets: [[UInt8]] = [WebhookReceiver.secret],
        apps: Set<String>? = nil,
        onlyInvalidTokens: Bool = false,
        batch: Int = 3,
        timeout: Duration = Patience.limit
    ) -> WebhookSettings {
        WebhookSettings(
            name: name,
            url: url,
            secrets: secrets,
            apps: apps,
            onlyInvalidTokens: onlyInvalidTokens,
            batch: batch,
            timeout: timeout
        )
    }

    private static func webhooks(
        _ settings: [WebhookSettings],
        _ queue: any PushQueue,
        metrics: RelayMetrics = RelayMetrics(factory: PrometheusMetrics()),
        retry: WebhookMachine.Retry = Self.retry,
        authorities: String? = nil
    ) -> Webhooks {
        var logger = Logger(label: "webhooks")
        logger.logLevel = .critical
        return Webhooks(
            settings,
            queue: queue,
            metrics: metrics,
            clock: SystemQueueClock(),
            logger: logger,
            authorities: authorities,
            retry: retry
        )
    }

    /// Runs webhooks until the body returns.
    private static func run(_ webhooks: Webhooks, _ body: () async throws -> Void) async throws {
        let task = Task { await webhooks.run() }
        do {
            try await body()
        } catch {
            task.cancel()
            await task.value
            throw error
        }
        task.cancel()
        await task.value
    }

    private static func settle(_ disk: FeedQueue.Disk, _ positions: some Sequence<Int>, app: String = "fern") throws {
        for position in positions { disk.settle(try PushStatus.sample(app: app), at: Int64(position)) }
    }

    private static func until(_ condition: () async throws -> Bool) async throws {
        let isMet = try await eventually(condition)
        try #require(isMet)
    }

    @Test("Outcomes arrive in the order of the feed, signed, and the position survives a restart")
    func postsInOrder() async throws {
        let start = Date().timeIntervalSince1970
        try await WebhookReceiver.run { receiver in
            let disk = FeedQueue.Disk()
            try Self.settle(disk, [2, 3, 5, 8, 13, 21, 34])
            let webhooks = Self.webhooks([Self.settings(receiver.url)], FeedQueue(disk))
            try await Self.run(webhooks) {
                try await receiver.waitFor(3)
                try await Self.until { await webhooks.statuses().first?.position == 34 }
                try Self.settle(disk, [55])
                webhooks.signal()
                try await receiver.waitFor(4)
                try await Self.until { await webhooks.statuses().first?.position == 55 }
                // The position is durable.
                try await Self.until {
                    disk.value("webhook/crm").map { String(decoding: $0, as: UTF8.self) } == #"{"position":55}"#
                }
            }
            try Self.settle(disk, [89])
            try await Self.run(Self.webhooks([Self.settings(receiver.url)], FeedQueue(disk))) {
                try await receiver.waitFor(5)
            }
            let deliveries = receiver.deliveries
            #expect(deliveries.map(\.cursors) == [[2, 3, 5], [8, 13, 21], [34], [55], [89]])
            #expect(deliveries.map(\.id) == ["crm-2", "crm-8", "crm-34", "crm-55", "crm-89"])
            let key = SymmetricKey(data: WebhookReceiver.secret)
            for delivery in deliveries {
                #expect(delivery.contentType == "application/json")
                let seconds = try #require(Double(delivery.timestamp))
                #expect(seconds >= start - 1 && seconds <= Date().timeIntervalSince1970)
                let signed = Array("\(delivery.id).\(delivery.timestamp).".utf8) + delivery.body
                let code = try #require(
                    delivery.signature.hasPrefix("v1,")
                        ? Data(base64Encoded: String(delivery.signature.dropFirst(3))) : nil
                )
                #expect(HMAC<SHA256>.isValidAuthenticationCode(code, authenticating: signed, using: key))
            }
        }
    }

    @Test("The signature is that of the Standard Webhooks specification's example")
    func knownSignature() throws {
        let secret = Array(try #require(Data(base64Encoded: "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")))
        let signature = WebhookSignature.sign(
            id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
            timestamp: "1614265330",
            body: Array(#"{"test": 2432232314}"#.utf8),
            secrets: [secret]
        )
        #expect(signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
    }

    @Test("A webhook with two secrets sends a signature with each, separated by a space")
    func twoSecrets() async throws {
        let next = Array("the next secret of the webhook".utf8)
        let disk = FeedQueue.Disk()
        try await WebhookReceiver.run { receiver in
            try Self.settle(disk, [2])
            let settings = Self.settings(receiver.url, secrets: [WebhookReceiver.secret, next])
            try await Self.run(Self.webhooks([settings], FeedQueue(disk))) { try await receiver.waitFor(1) }
            let delivery = try #require(receiver.deliveries.first)
            let signatures = delivery.signature.split(separator: " ", omittingEmptySubsequences: false)
            #expect(signatures.count == 2)
            let signed = Array("\(delivery.id).\(delivery.timestamp).".utf8) + delivery.body
            for (signature, secret) in zip(signatures, [WebhookReceiver.secret, next]) {
                let code = try #require(
                    signature.hasPrefix("v1,") ? Data(base64Encoded: String(signature.dropFirst(3))) : nil
                )
                let key = SymmetricKey(data: secret)
                #expect(HMAC<SHA256>.isValidAuthenticationCode(code, authenticating: signed, using: key))
            }
        }
    }

    @Test("A request that fails is repeated with the same id and body, and the later ones wait")
    func retries() async throws {
        let script: @Sendable (Int, WebhookReceiver.Delivery) -> WebhookReceiver.Reply = { number, _ in
            switch number {
            case 0: .status(500)
            case 1: .status(301, ["location": "/elsewhere"])
            case 2: .status(307, ["location": "/elsewhere"])
            case 3: .status(422)
            case 4: .endless(503, fast: true)
            default: .status(200)
            }
        }
        try await WebhookReceiver.run(script) { receiver in
            let metrics = PrometheusMetrics()
            let disk = FeedQueue.Disk()
            try Self.settle(disk, 1...4)
            let webhooks = Self.webhooks(
                [Self.settings(receiver.url)],
                FeedQueue(disk),
                metrics: RelayMetrics(factory: metrics)
            )
            try await Self.run(webhooks) {
                try await receiver.waitFor(7)
                try await Self.until { await webhooks.statuses().first?.position == 4 }
            }
            let deliveries = receiver.deliveries
            #expect(deliveries.map(\.id) == Array(repeating: "crm-1", count: 6) + ["crm-4"])
            #expect(Set(deliveries.prefix(6).map(\.body)).count == 1)
            #expect(metrics.text().contains(#"apns_relay_webhook_requests_total{result="refused",webhook="crm"} 5"#))
            #expect(
                metrics.text().contains(#"apns_relay_webhook_requests_total{result="acknowledged",webhook="crm"} 2"#)
            )
        }
    }

    @Test("A request that the receiver refuses holds up the later ones until an operator skips it")
    func skips() async throws {
        try await WebhookReceiver.run({ _, delivery in .status(delivery.cursors.contains(6) ? 422 : 200) }) {
            receiver in
            let disk = FeedQueue.Disk()
            try Self.settle(disk, 1...20)
            let webhooks = Self.webhooks([Self.settings(receiver.url, batch: 8)], FeedQueue(disk))
            try await Self.run(webhooks) {
                try await Self.until { (await webhooks.statuses().first?.failures ?? 0) >= 3 }
                let status = try #require(await webhooks.statuses().first)
                #expect(status.request?.id == "crm-1" && status.request?.outcomes == 8)
                #expect(status.lastError == "the receiver responded with status 422")
                for (name, id) in [("crm", "crm-2"), ("other", "crm-1")] {
                    let skipped = try await webhooks.skip(name, id)
                    #expect(skipped == nil)
                }
                let skipped = try await webhooks.skip("crm", "crm-1")
                #expect(skipped == 8)
                try await Self.until { await webhooks.statuses().first?.position == 20 }
                let again = try await webhooks.skip("crm", "crm-1")
                #expect(again == nil)
            }
            let refused = receiver.deliveries.prefix { $0.id == "crm-1" }
            #expect(refused.allSatisfy { $0.cursors == Array(1...8) })
            let rest = receiver.deliveries.dropFirst(refused.count)
            #expect(rest.map(\.id) == ["crm-9", "crm-17"])
        }
    }

    @Test("A skip that cannot be stored changes nothing, and one that is stored holds after a restart")
    func skipIsDurable() async throws {
        try await WebhookReceiver.run({ _, _ in .status(500) }) { receiver in
            let disk = FeedQueue.Disk()
            try Self.settle(disk, 1...6)
            let queue = FeedQueue(disk)
            let first = Self.webhooks([Self.settings(receiver.url)], queue)
            try await Self.run(first) {
                try await receiver.waitFor(1)
                queue.kill()
                await #expect(throws: QueueError.self) { _ = try await first.skip("crm", "crm-1") }
                queue.revive()
            }
            // Nobody posts, as on a relay that is not the one that does.
            let skipped = try await first.skip("crm", "crm-1")
            #expect(skipped == 3)
            let count = receiver.deliveries.count
            receiver.respond { _, _ in .status(200) }
            try await Self.run(Self.webhooks([Self.settings(receiver.url)], FeedQueue(disk))) {
                try await receiver.waitFor(count + 1)
            }
            #expect(receiver.deliveries.dropFirst(count).map(\.cursors) == [[4, 5, 6]])
        }
    }

    @Test("A redirect is not followed, and the error names it and the setting", arguments: [301, 308])
    func redirects(_ status: Int) async throws {
        let target = "https://crm.example.com/hook"
        try await WebhookReceiver.run({ _, _ in .status(status, ["location": target + "?key=secret"]) }) { receiver in
            let disk = FeedQueue.Disk()
            try Self.settle(disk, 1...3)
            let webhooks = Self.webhooks([Self.settings(receiver.url)], FeedQueue(disk))
            try await Self.run(webhooks) {
                try await Self.until { await webhooks.statuses().first?.lastError != nil }
                let error = try #require(await webhooks.statuses().first?.lastError)
                #expect(error.contains("status \(status)") && error.contains("redirects to \(target). "), "\(error)")
                #expect(error.contains("webhook.crm.url") && !error.contains("secret"))
            }
            #expect(receiver.deliveries.allSatisfy { $0.cursors == [1, 2, 3] })
        }
    }

    @Test("A receiver that hangs is cut off, and holds up no other webhook")
    func hangs() async throws {
        try await WebhookReceiver.run({ _, _ in .hang }) { hanging in
            try await WebhookReceiver.run { other in
                let disk = FeedQueue.Disk()
                try Self.settle(disk, 1...30)
                let webhooks = Self.webhooks(
                    [
                        Self.settings(hanging.url, name: "slow", timeout: .milliseconds(100)),
                        Self.settings(other.url, name: "other"),
                    ],
                    FeedQueue(disk)
                )
                try await Self.run(webhooks) {
                    try await other.waitFor(10)
                    try await hanging.waitFor(3)
                    try await Self.until { (await webhooks.statuses().first?.failures ?? 0) >= 2 }
                    #expect(await webhooks.statuses().first?.lastError?.contains("did not respond") == true)
                }
                #expect(Set(hanging.deliveries.map(\.id)) == ["slow-1"])
                #expect(other.deliveries.flatMap(\.cursors) == Array(1...30))
            }
        }
    }

    @Test("A status of 2xx acknowledges, even if the response's body never ends", arguments: [true, false])
    func endlessBody(fast: Bool) async throws {
        try await WebhookReceiver.run({ _, _ in .endless(202, fast: fast) }) { receiver in
            let disk = FeedQueue.Disk()
            try Self.settle(disk, 1...6)
            let settings = Self.settings(receiver.url, timeout: .milliseconds(300))
            try await Self.run(Self.webhooks([settings], FeedQueue(disk))) {
                try await receiver.waitFor(2)
                try await Self.until {
                    disk.value("webhook/crm").map { String(decoding: $0, as: UTF8.self) } == #"{"position":6}"#
                }
            }
            // A busy machine may need longer than the timeout for the status; then the request is repeated.
            #expect(Set(receiver.deliveries.map(\.cursors)) == [[1, 2, 3], [4, 5, 6]])
        }
    }

    @Test("The receiver's retry-after is respected")
    func retryAfter() async throws {
        let script: @Sendable (Int, WebhookReceiver.Delivery) -> WebhookReceiver.Reply = { number, _ in
            number == 0 ? .status(429, ["retry-after": "1"]) : .status(200)
        }
        try await WebhookReceiver.run(script) { receiver in
            let disk = FeedQueue.Disk()
            try Self.settle(disk, 1...1)
            let webhooks = Self.webhooks([Self.settings(receiver.url)], FeedQueue(disk))
            try await Self.run(webhooks) { try await receiver.waitFor(2) }
            let times = receiver.deliveries.map(\.time)
            #expect(times[0].duration(to: times[1]) > .milliseconds(900))
        }
    }

    @Test("Without a connection, requests fail and are repeated until the receiver is there")
    func noConnection() async throws {
        let disk = FeedQueue.Disk()
        try Self.settle(disk, 1...1)
        let closed = Self.webhooks([Self.settings("http://127.0.0.1:1/hook")], FeedQueue(disk))
        try await Self.run(closed) {
            try await Self.until { (await closed.statuses().first?.failures ?? 0) >= 3 }
            #expect(await closed.statuses().first?.lastError?.contains("no connection") == true)
        }
        for url in ["", "nonsense", "ftp://127.0.0.1/", "http://", "http://127.0.0.1:99999/"] {
            let invalid = Self.webhooks([Self.settings(url)], FeedQueue(disk))
            try await Self.run(invalid) {
                try await Self.until { (await invalid.statuses().first?.failures ?? 0) >= 1 }
            }
        }
        try await WebhookReceiver.run { receiver in
            try await Self.run(Self.webhooks([Self.settings(receiver.url)], FeedQueue(disk))) {
                try await receiver.waitFor(1)
            }
            #expect(receiver.deliveries.map(\.id) == ["crm-1"])
        }
    }

    @Test("The receiver's certificate is verified")
    func verifiesCertificates() async throws {
        let simulator = try await Simulator.start()
        let disk = FeedQueue.Disk()
        try Self.settle(disk, 1...1)
        let settings = Self.settings("https://localhost:\(simulator.port)/hook")
        let untrusting = Self.webhooks([settings], FeedQueue(disk))
        try await Self.run(untrusting) {
            try await Self.until { (await untrusting.statuses().first?.failures ?? 0) >= 1 }
            #expect(await untrusting.statuses().first?.lastError?.contains("no connection") == true)
        }
        let trusting = Self.webhooks([settings], FeedQueue(disk), authorities: simulator.certificateAuthorityPEM)
        try await Self.run(trusting) {
            try await Self.until { (await trusting.statuses().first?.failures ?? 0) >= 1 }
            // The simulator is no webhook receiver, but it does respond.
            #expect(await trusting.statuses().first?.lastError?.contains("status") == true)
        }
        await simulator.stop()
    }

    @Test("A webhook gets only the outcomes of its apps, or only invalid tokens")
    func filters() async throws {
        try await WebhookReceiver.run { receiver in
            let disk = FeedQueue.Disk()
            try Self.settle(disk, 1...5, app: "fern")
            try Self.settle(disk, 6...7, app: "moss")
            let gone = Rejection(status: 410, reason: .unregistered, timestamp: 1_795_000_000_000)
            disk.settle(try .sample(app: "moss", outcome: .rejected(.rejected(gone, attempts: 1))), at: 8)
            let webhooks = Self.webhooks(
                [
                    Self.settings(receiver.url, name: "moss", apps: ["moss"], batch: 2),
                    Self.settings(receiver.url, name: "dead", onlyInvalidTokens: true, batch: 2),
                ],
                FeedQueue(disk)
            )
            try await Self.run(webhooks) {
                try await Self.until { await webhooks.statuses().map(\.position) == [8, 8] }
            }
            let moss = receiver.deliveries.filter { $0.id.hasPrefix("moss") }
            #expect(moss.flatMap(\.cursors) == [6, 7, 8])
            #expect(receiver.deliveries.filter { $0.id.hasPrefix("dead") }.map(\.cursors) == [[8]])
        }
    }

    @Test("After a restart, a request has the same outcomes although more have been settled and the batch is larger")
    func sameExtent() async throws {
        try await WebhookReceiver.run({ _, _ in .status(500) }) { receiver in
            let disk = FeedQueue.Disk()
            try Self.settle(disk, 1...2)
            try await Self.run(Self.webhooks([Self.settings(receiver.url)], FeedQueue(disk))) {
                try await receiver.waitFor(2)
            }
            try Self.settle(disk, 3...9)
            receiver.respond { _, _ in .status(200) }
            let count = receiver.deliveries.count
            let second = Self.webhooks([Self.settings(receiver.url, batch: 100)], FeedQueue(disk))
            try await Self.run(second) { try await Self.until { await second.statuses().first?.position == 9 } }
            #expect(receiver.deliveries.dropFirst(count).map(\.cursors) == [[1, 2], Array(3...9)])
            #expect(Set(receiver.deliveries.dropLast().map(\.body)).count == 1)
        }
    }

    @Test("Outcomes that were deleted before their acknowledgement are counted, and the rest is posted")
    func pruned() async throws {
        try await WebhookReceiver.run({ _, _ in .status(500) }) { receiver in
            let metrics = PrometheusMetrics()
            let disk = FeedQueue.Disk()
            try Self.settle(disk, 1...6)
            try await Self.run(Self.webhooks([Self.settings(receiver.url)], FeedQueue(disk))) {
                try await receiver.waitFor(1)
            }
            disk.prune(upTo: 2)
            receiver.respond { _, _ in .status(200) }
            let second = Self.webhooks(
                [Self.settings(receiver.url)],
                FeedQueue(disk),
                metrics: RelayMetrics(factory: metrics)
            )
            try await Self.run(second) { try await Self.until { await second.statuses().first?.position == 6 } }
            #expect(receiver.deliveries.suffix(2).map(\.cursors) == [[3], [4, 5, 6]])
            #expect(receiver.deliveries.suffix(2).map(\.id) == ["crm-1", "crm-4"])
            #expect(metrics.text().contains(#"apns_relay_webhook_lost_outcomes_total{webhook="crm"} 2"#))
        }
    }

    @Test("Stored state that cannot be read stops its webhook and is not overwritten")
    func unreadableState() async throws {
        try await WebhookReceiver.run { receiver in
            let disk = FeedQueue.Disk()
            try Self.settle(disk, 1...3)
            disk.setValue(Array("nonsense".utf8), "webhook/crm")
            let webhooks = Self.webhooks(
                [Self.settings(receiver.url), Self.settings(receiver.url, name: "other")],
                FeedQueue(disk)
            )
            try await Self.run(webhooks) {
                try await receiver.waitFor(1)
                #expect(await webhooks.statuses().first?.lastError?.contains("cannot be read") == true)
            }
            #expect(receiver.deliveries.map(\.id) == ["other-1"])
            #expect(disk.value("webhook/crm") == Array("nonsense".utf8))
        }
    }

    @Test("An error of the storage is shown, and the webhook goes on afterwards")
    func storageFails() async throws {
        try await WebhookReceiver.run { receiver in
            let disk = FeedQueue.Disk()
            try Self.settle(disk, 1...3)
            let queue = FeedQueue(disk, calls: 2)
            let webhooks = Self.webhooks([Self.settings(receiver.url)], queue)
            try await Self.run(webhooks) {
                try await Self.until { await webhooks.statuses().first?.lastError?.contains("killed") == true }
                #expect(receiver.deliveries.isEmpty)
                queue.revive()
                try await Self.until { await webhooks.statuses().first?.position == 3 }
                #expect(await webhooks.statuses().first?.lastError == nil)
            }
        }
    }

    @Test("Without webhooks, the run only waits", .timeLimit(.minutes(5)))
    func noWebhooks() async throws {
        let webhooks = Self.webhooks([], FeedQueue())
        try await Self.run(webhooks) {
            #expect(await webhooks.statuses() == [])
            let skipped = try await webhooks.skip("crm", "crm-1")
            #expect(skipped == nil)
        }
    }
}
