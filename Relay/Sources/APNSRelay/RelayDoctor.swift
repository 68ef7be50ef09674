import APNSPool
import Foundation
import Logging
import PostgresPushQueue
import PushQueue
import ServiceLifecycle
import WebPushGateway

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Tests a relay's certificates and its connection to APNs. Sends no push.
public struct RelayDoctor: Sendable {
    /// The result of one test.
    public struct Finding: Sendable, Hashable, CustomStringConvertible {
        public var subject: String
        public var isOK: Bool
        /// The finding, and the remedy.
        public var message: String

        public init(_ subject: String, isOK: Bool, _ message: String) {
            self.subject = subject
            self.isOK = isOK
            self.message = message
        }

        public var description: String { "\(self.isOK ? "ok    " : "failed") \(self.subject): \(self.message)" }
    }

    private let settings: RelaySettings

    public init(_ settings: RelaySettings) {
        self.settings = settings
    }

    /// Runs all tests. This takes at most about 20 seconds.
    ///
    /// It uses the provider token of the relays, because APNs could refuse the relays after another one. If there is none yet,
    /// it signs one that the relays will use: beside the file, or in the database.
    public func findings() async -> [Finding] {
        self.listening(now: SystemQueueClock().now) + self.registration(now: SystemQueueClock().now)
            + self.webhooks()
            + (await self.apps())
    }

    /// Why the storage must not be touched by this process; nil if it may be.
    ///
    /// The files that root creates in the folder of another user could not be used by the relay.
    public func otherOwner() -> Finding? {
        guard self.settings.storage.postgres == nil, geteuid() == 0 else { return nil }
        let file = self.settings.storage.file
        let folder = file.lastIndex(of: "/").map { String(file[...$0]) } ?? "."
        let attributes = try? FileManager.default.attributesOfItem(atPath: folder)
        guard let owner = attributes?[.ownerAccountID] as? NSNumber, owner != 0 else { return nil }
        return Finding(
            "file \(file)",
            isOK: false,
            "the folder belongs to the user with the id \(owner); run this command as that user, for example with "
                + "runuser -u apns-relay --"
        )
    }

    /// Inspects the database of the settings; empty if there is none. Changes nothing in it.
    public func database() async -> [Finding] {
        do throws(QueueError) {
            guard let inspection = try await self.inspection() else { return [] }
            return inspection.findings.map { Finding("database: \($0.subject)", isOK: $0.isOK, $0.message) }
        } catch {
            return [Finding("database", isOK: false, error.message)]
        }
    }

    private func inspection() async throws(QueueError) -> ServerInspection? {
        let storage = self.settings.storage
        guard let postgres = storage.postgres else { return nil }
        let seen = try storage.seenProgress()
        return try await DispatchQueue.global().perform { () throws(QueueError) in
            try ServerInspection(postgres, migrates: storage.migrates, seen: seen)
        }
    }

    /// Reads the files for TLS.
    ///
    /// - Parameter now: the time to compare with the expiry of the certificate.
    func listening(now: QueueTime) -> [Finding] {
        let http = self.settings.http
        let files: TLSFiles?
        do throws(RelayAPIError) {
            files = try TLSFiles(http)
        } catch {
            return [Finding("http", isOK: false, error.message)]
        }
        guard let files else {
            let isLoopback = OriginGuard.isLoopbackAddress(http.host)
            return [
                Finding(
                    "http",
                    isOK: true,
                    "listens at \(http.host):\(http.port) without TLS"
                        + (isLoopback ? "" : "; bearer tokens and device tokens travel unencrypted")
                )
            ]
        }
        let listens = "listens at \(http.host):\(http.port) with a chain of length \(files.chainLength)"
        let days = now.duration(to: files.expiry) / .seconds(86_400)
        guard days > 0 else {
            let message = "the certificate expired \(Int(-days)) days ago; replace it"
            return [Finding("http", isOK: false, message)]
        }
        let remedy = days < 14 ? "; replace it" : ""
        return [Finding("http", isOK: true, "\(listens); the certificate expires in \(Int(days)) days\(remedy)")]
    }

    /// Who registers subscriptions for Web Push; empty if there is no gateway.
    ///
    /// - Parameter now: the time to compare with the expiry of the root certificate.
    func registration(now: QueueTime) -> [Finding] {
        guard let webPush = self.settings.webPush else { return [] }
        let registrars = self.settings.callers.filter { $0.has(.subscribe) }.map(\.name)
        let findings = webPush.findings(
            apps: self.settings.apps.map(GatewayApp.init),
            registrars: self.settings.callers.isEmpty ? nil : registrars,
            now: now
        )
        return findings.map { finding in
            Finding("web push" + (finding.app.map { ", app \($0)" } ?? ""), isOK: finding.isOK, finding.message)
        }
    }

    private func webhooks() -> [Finding] {
        self.settings.webhooks.map { webhook in
            let isEncrypted = webhook.url.hasPrefix("https://")
            return Finding(
                "webhook \(webhook.name)",
                isOK: true,
                "posts to \(webhook.url)\(isEncrypted ? "" : "; device tokens travel unencrypted") (not tried)"
            )
        }
    }

    /// One round trip to APNs for each app and environment.
    private func apps() async -> [Finding] {
        let logger = Logger(label: "apns-relay") { _ in SwiftLogNoOpLogHandler() }
        var opened: OpenedQueue?
        if self.settings.storage.postgres != nil {
            do throws(QueueError) {
                if try await self.inspection()?.isBeforeFirstStart ?? false {
                    // The token of a test could not be stored for the relays, and APNs could refuse theirs after it.
                    let message =
                        "not tried, because the queue that keeps the provider token does not exist yet; run this command "
                        + "again after the relay has started, or after apns-relay migrate"
                    return [Finding("apps", isOK: true, message)]
                }
                opened = try await self.settings.storage.open(isInspected: true, logger: logger)
            } catch {
                return [Finding("apps", isOK: false, "not tried, because the queue cannot be used: \(error.message)")]
            }
        }
        let shared = opened.map { SharedTokenSource($0.queue, clock: SystemQueueClock()) }
        let findings = await self.apps(shared ?? self.settings.storage.fileTokens(logger: logger), logger)
        await opened?.queue.close()
        return findings
    }

    private func apps(_ tokens: (any ProviderTokenSource)?, _ logger: Logger) async -> [Finding] {
        let group: APNSClientGroup
        do throws(APNSConfigurationError) {
            group = try self.settings.makeGroup(tokens: tokens, logger: logger)
        } catch {
            return [Finding("apps", isOK: false, error.message)]
        }
        let running = Task { try await group.run() }
        let checks = await withTaskGroup(of: Finding.self) { tasks in
            for app in self.settings.apps {
                for (name, environment) in app.environments {
                    tasks.addTask {
                        let check = await group.sender(for: app.name, in: environment).check()
                        return Finding("app \(app.name), \(name)", isOK: check.isOK, Self.text(check))
                    }
                }
            }
            return await tasks.reduce(into: []) { $0.append($1) }
        }
        group.shutdown()
        _ = await running.result
        return checks.sorted { $0.subject < $1.subject }
    }

    private static func text(_ check: APNSCheck) -> String {
        guard let last = check.steps.last else { return "nothing was tested" }
        return check.isOK ? "APNs accepts the credential and the topic" : last.description
    }
}
