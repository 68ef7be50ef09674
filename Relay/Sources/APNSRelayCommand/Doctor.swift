import APNSRelay
import ArgumentParser
import Foundation
import Logging
import PushQueue
import SQLitePushQueue

/// `apns-relay doctor`
struct Doctor: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Checks the settings, the database, the certificates and the connection to APNs.",
        discussion: """
            Prints a line for each check. The exit status is 1 if a check fails. It sends no push, but asks APNs about \
            a device token that cannot exist. It opens a queue in a file as `serve` does: it does not check a file \
            that a running relay uses, it ends the claims of a relay that was killed, and it parks due pushes after a \
            restore. It uses the relay's provider token. If there is none, it signs one and stores it for the relay. It \
            changes nothing else. Before the first start, it says what the relay will create.
            """
    )

    @OptionGroup var settings: SettingsOptions

    func run() async throws {
        let settings: RelaySettings
        do {
            settings = try self.settings.read()
        } catch let error as RelaySettingsError {
            for fault in error.faults { print(RelayDoctor.Finding("settings", isOK: false, "\(fault)")) }
            throw ExitCode.failure
        }
        let apps = settings.apps.map(\.name).joined(separator: ", ")
        let listed = apps.isEmpty ? "none, so the relay accepts no push; name your apps in 'apps'" : apps
        print(RelayDoctor.Finding("settings", isOK: true, "apps: \(listed); callers: \(settings.callers.count)"))
        if let finding = RelayDoctor(settings).otherOwner() {
            print(finding)
            throw ExitCode.failure
        }
        let storage =
            settings.storage.postgres == nil
            ? [await self.file(settings)] : await RelayDoctor(settings).database()
        for finding in storage { print(finding) }
        let findings = await RelayDoctor(settings).findings()
        for finding in findings { print(finding) }
        guard (storage + findings).allSatisfy(\.isOK) else { throw ExitCode.failure }
    }

    private func file(_ settings: RelaySettings) async -> RelayDoctor.Finding {
        let subject = "file \(settings.storage.file)"
        let logger = Logger(label: "apns-relay") { _ in SwiftLogNoOpLogHandler() }
        do throws(QueueError) {
            _ = try settings.storage.seenProgress()
        } catch {
            return RelayDoctor.Finding(subject, isOK: false, error.message)
        }
        guard FileManager.default.fileExists(atPath: settings.storage.file) else {
            return RelayDoctor.Finding(subject, isOK: true, "does not exist yet; the relay will create it")
        }
        do throws(QueueError) {
            let queue = try await settings.storage.openFile(logger: logger)
            do throws(QueueError) {
                let damage = try await queue.checkIntegrity()
                let counts = try await queue.counts()
                await queue.close()
                return RelayDoctor.Finding(
                    subject,
                    isOK: damage.isEmpty,
                    damage.isEmpty
                        ? "intact; \(counts.queued) queued, \(counts.parked) parked pushes"
                            + (queue.restore == nil
                                ? "" : "; a backup was restored: \(queue.restore?.parkedCount ?? 0) pushes were parked")
                        : "damaged; restore a backup: \(damage.joined(separator: "; "))"
                )
            } catch {
                await queue.close()
                throw error
            }
        } catch {
            guard error.code != .inUse else {
                return RelayDoctor.Finding(subject, isOK: true, "a running relay uses it, so it was not checked")
            }
            return RelayDoctor.Finding(subject, isOK: false, error.message)
        }
    }
}
