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
        timeout: Duration = Patience.limit,
        giveUpAfter: Duration = .seconds(3_600)
    ) -> WebhookSettings {
        WebhookSettings(
            name: name,
            url: url,
            secrets: secrets,
            apps: apps,
            onlyInvalidTokens: onlyInvalidTokens,
            batch: batch,
            timeout: timeout,
            giveUpAfter: giveUpAfter
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

    private static func until(_ condition: () throws -> Bool) async throws {
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
                try await Self.until { webhooks.statuses().first?.position == 34 }
                try Self.settle(disk, [55])
                webhooks.signal()
                try await receiver.waitFor(4)
                try await Self.until { webhooks.statuses().first?.position == 55 }
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
            case 3: .status(429)
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
                try await Self.until { webhooks.statuses().first?.position == 4 }
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

    @Test("A receiver that refuses one outcome gets all others, and the refused one is parked alone")
    func refusesOne() async throws {
        try await WebhookReceiver.run({ _, delivery in .status(delivery.cursors.contains(6) ? 422 : 200) }) {
            receiver in
            let disk = FeedQueue.Disk()
            try Self.settle(disk, 1...20)
            let webhooks = Self.webhooks([Self.settings(receiver.url, batch: 8)], FeedQueue(disk))
            try await Self.run(webhooks) {
                try await Self.until { webhooks.statuses().first?.position == 20 }
                let parked = try #require(webhooks.statuses().first?.parked)
                #expect(parked.map(\.id) == ["crm-6"])
                #expect(parked.first?.error == "the receiver responded with status 422")
                // It accepts it later.
                receiver.respond { _, _ in .status(200) }
                #expect(try await webhooks.retry("crm", "crm-6"))
                try await Self.until { webhooks.statuses().first?.parked.isEmpty == true }
            }
            let taken = receiver.deliveries.filter { !$0.cursors.contains(6) }.flatMap(\.cursors)
            #expect(taken == (1...20).filter { $0 != 6 })
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
                try await Self.until { webhooks.statuses().first?.lastError != nil }
                let error = try #require(webhooks.statuses().first?.lastError)
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
                    try await Self.until { (webhooks.statuses().first?.failures ?? 0) >= 2 }
                    #expect(webhooks.statuses().first?.lastError?.contains("did not respond") == true)
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
            try await Self.until { (closed.statuses().first?.failures ?? 0) >= 3 }
            #expect(closed.statuses().first?.lastError?.contains("no connection") == true)
        }
        for url in ["", "nonsense", "ftp://127.0.0.1/", "http://", "http://127.0.0.1:99999/"] {
            let invalid = Self.webhooks([Self.settings(url)], FeedQueue(disk))
            try await Self.run(invalid) { try await Self.until { (invalid.statuses().first?.failures ?? 0) >= 1 } }
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
            try await Self.until { (untrusting.statuses().first?.failures ?? 0) >= 1 }
            #expect(untrusting.statuses().first?.lastError?.contains("no connection") == true)
        }
        let trusting = Self.webhooks([settings], FeedQueue(disk), authorities: simulator.certificateAuthorityPEM)
        try await Self.run(trusting) {
            try await Self.until { (trusting.statuses().first?.failures ?? 0) >= 1 }
            // The simulator is no webhook receiver, but it does respond.
            #expect(trusting.statuses().first?.lastError?.contains("status") == true)
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
                try await Self.until { webhooks.statuses().map(\.position) == [8, 8] }
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
            try await Self.run(second) { try await Self.until { second.statuses().first?.position == 9 } }
            #expect(receiver.deliveries.dropFirst(count).map(\.cursors) == [[1, 2], Array(3...9)])
            #expect(Set(receiver.deliveries.dropLast().map(\.body)).count == 1)
        }
    }

    @Test("A decision of an operator is carried out, also if the storage fails at the start")
    func decisionAfterFailure() async throws {
        try await WebhookReceiver.run({ _, _ in .status(422) }) { receiver in
            let disk = FeedQueue.Disk()
            try Self.settle(disk, [3])
            let settings = [Self.settings(receiver.url)]
            let first = Self.webhooks(settings, FeedQueue(disk))
            try await Self.run(first) { try await Self.until { first.statuses().first?.parked.count == 1 } }
            disk.setValue(Array("drop".utf8), "webhook-decision/crm/crm-3")
            let failing = FailingDisk()
            failing.fill(for: ["value"])
            let second = Self.webhooks(settings, FailingQueue(FeedQueue(disk), failing))
            try await Self.run(second) {
                try await Self.until { failing.failures > 3 }
                failing.clear()
                try await Self.until { disk.value("webhook-parked/crm") == Array("[]".utf8) }
                try await Self.until { disk.value("webhook-decision/crm/crm-3") == nil }
            }
        }
    }

    @Test("A decision that is stored while an older one is carried out is carried out, too")
    func newerDecision() async throws {
        try await WebhookReceiver.run({ _, _ in .status(422) }) { receiver in
            let disk = FeedQueue.Disk()
            try Self.settle(disk, [3])
            let settings = [Self.settings(receiver.url)]
            let first = Self.webhooks(settings, FeedQueue(disk))
            try await Self.run(first) { try await Self.until { first.statuses().first?.parked.count == 1 } }
            disk.setValue(Array("retry".utf8), "webhook-decision/crm/crm-3")
            let queue = SharedQueue(FeedQueue(disk))
            queue.afterReading { disk.setValue(Array("drop".utf8), "webhook-decision/crm/crm-3") }
            try await Self.run(Self.webhooks(settings, queue)) {
                try await Self.until { disk.value("webhook-parked/crm") == Array("[]".utf8) }
                try await Self.until { disk.value("webhook-decision/crm/crm-3") == nil }
            }
            #expect(receiver.deliveries.count <= 2)
        }
    }

    @Test("A request is parked after its time, the next begins; parked ones survive a restart, are retried and dropped")
    func parks() async throws {
        let script: @Sendable (Int, WebhookReceiver.Delivery) -> WebhookReceiver.Reply = { _, delivery in
            delivery.cursors.contains { $0 <= 6 } ? .status(500) : .status(200)
        }
        try await WebhookReceiver.run(script) { receiver in
            let disk = FeedQueue.Disk()
            try Self.settle(disk, 1...9)
            let settings = Self.settings(receiver.url, giveUpAfter: .milliseconds(100))
            let first = Self.webhooks([settings], FeedQueue(disk))
            try await Self.run(first) {
                try await Self.until { first.statuses().first?.position == 9 }
                let status = try #require(first.statuses().first)
                #expect(status.parked.map(\.id) == ["crm-1", "crm-4"])
                #expect(status.parked.map(\.outcomes) == [3, 3])
                #expect(status.parked.allSatisfy { $0.error.contains("500") })
            }
            let queue = FeedQueue(disk)
            let second = Self.webhooks([settings], queue)
            try await Self.run(second) {
                try await Self.until { second.statuses().first?.parked.count == 2 }
                var isParked = try await second.retry("crm", "crm-7")
                #expect(!isParked)
                isParked = try await second.retry("other", "crm-1")
                #expect(!isParked)
                // A retry that fails leaves it parked.
                let count = receiver.deliveries.count
                isParked = try await second.retry("crm", "crm-1")
                #expect(isParked)
                try await receiver.waitFor(count + 1)
                #expect(second.statuses().first?.parked.count == 2)
                receiver.respond { _, _ in .status(200) }
                isParked = try await second.retry("crm", "crm-1")
                #expect(isParked)
                try await Self.until { second.statuses().first?.parked.map(\.id) == ["crm-4"] }
                #expect(receiver.deliveries.last?.cursors == [1, 2, 3])

                // A drop that cannot be stored changes nothing.
                queue.kill()
                await #expect(throws: QueueError.self) { _ = try await second.drop("crm", "crm-4") }
                #expect(second.statuses().first?.parked.map(\.id) == ["crm-4"])
                queue.revive()
                isParked = try await second.drop("crm", "crm-4")
                #expect(isParked)
                isParked = try await second.drop("crm", "crm-4")
                #expect(!isParked)
            }
            let third = Self.webhooks([settings], FeedQueue(disk))
            try await Self.run(third) {
                try await Self.until { third.statuses().first?.position == 9 }
                #expect(third.statuses().first?.parked == [])
            }
            #expect(receiver.deliveries.allSatisfy { $0.id != "crm-4" || $0.cursors == [4, 5, 6] })
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
            try await Self.run(second) { try await Self.until { second.statuses().first?.position == 6 } }
            #expect(receiver.deliveries.suffix(2).map(\.cursors) == [[3], [4, 5, 6]])
            #expect(receiver.deliveries.suffix(2).map(\.id) == ["crm-1", "crm-4"])
            #expect(metrics.text().contains(#"apns_relay_webhook_lost_outcomes_total{webhook="crm"} 2"#))
        }
    }

    @Test("A parked request whose outcomes were all deleted says so and waits for its end")
    func prunedWhileParked() async throws {
        try await WebhookReceiver.run({ _, _ in .status(500) }) { receiver in
            let disk = FeedQueue.Disk()
            try Self.settle(disk, 1...2)
            let settings = Self.settings(receiver.url, giveUpAfter: .zero)
            let webhooks = Self.webhooks([settings], FeedQueue(disk))
            try await Self.run(webhooks) {
                try await Self.until { webhooks.statuses().first?.parked.count == 1 }
                disk.prune(upTo: 2)
                let isParked = try await webhooks.retry("crm", "crm-1")
                #expect(isParked)
                try await Self.until {
                    webhooks.statuses().first?.parked.first?.error.contains("drop the request") == true
                }
            }
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
                #expect(webhooks.statuses().first?.lastError?.contains("cannot be read") == true)
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
            let queue = FeedQueue(disk, calls: 3)
            let webhooks = Self.webhooks([Self.settings(receiver.url)], queue)
            try await Self.run(webhooks) {
                try await Self.until { webhooks.statuses().first?.lastError?.contains("killed") == true }
                #expect(receiver.deliveries.isEmpty)
                queue.revive()
                try await Self.until { webhooks.statuses().first?.position == 3 }
                #expect(webhooks.statuses().first?.lastError == nil)
            }
        }
    }

    @Test("Without webhooks, the run only waits", .timeLimit(.minutes(5)))
    func noWebhooks() async throws {
        let webhooks = Self.webhooks([], FeedQueue())
        try await Self.run(webhooks) {
            #expect(webhooks.statuses() == [])
            let isParked = try await webhooks.retry("crm", "crm-1")
            #expect(!isParked)
        }
    }

    @Test("After the end, decisions of operators fail instead of waiting")
    func decisionsAfterEnd() async throws {
        let queue = FeedQueue()
        let webhooks = Self.webhooks([Self.settings("http://127.0.0.1:1/")], queue)
        try await Self.run(webhooks) {}
        queue.kill()
        await #expect(throws: QueueError.self) { _ = try await webhooks.retry("crm", "crm-1") }
        await #expect(throws: QueueError.self) { _ = try await webhooks.drop("crm", "crm-1") }
        webhooks.signal()
    }
}
