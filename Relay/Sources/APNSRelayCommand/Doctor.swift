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
            a device token that cannot exist. It opens the database as `serve` does, so it does not check a database \
            that a running relay uses.
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
        print(RelayDoctor.Finding("settings", isOK: true, "apps: \(apps); callers: \(settings.callers.count)"))
        let storage = await self.storage(settings)
        print(storage)
        let findings = await RelayDoctor(settings).findings()
        for finding in findings { print(finding) }
        guard storage.isOK, findings.allSatisfy(\.isOK) else { throw ExitCode.failure }
    }

    private func storage(_ settings: RelaySettings) async -> RelayDoctor.Finding {
        let subject = "file \(settings.storage.file)"
        let logger = Logger(label: "apns-relay") { _ in SwiftLogNoOpLogHandler() }
        if settings.storage.postgres != nil { return await self.database(settings.storage, logger) }
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
                        : "damaged; restore a backup: \(damage.joined(separator: "; "))"
                )
            } catch {
                await queue.close()
                throw error
            }
        } catch {
            return RelayDoctor.Finding(subject, isOK: error.code == .inUse, error.message)
        }
    }

    /// Checks that the database can be reached and written, without updating its schema.
    private func database(_ storage: StorageSettings, _ logger: Logger) async -> RelayDoctor.Finding {
        let subject = "database \(storage.place)"
        var storage = storage
        storage.migrates = false
        do throws(QueueError) {
            let queue = try await storage.open(logger: logger).queue
            do throws(QueueError) {
                try await queue.checkStorage()
                let counts = try await queue.counts()
                await queue.close()
                return RelayDoctor.Finding(
                    subject,
                    isOK: true,
                    "can be used; \(counts.unsettled) pushes without an outcome"
                )
            } catch {
                await queue.close()
                throw error
            }
        } catch {
            return RelayDoctor.Finding(subject, isOK: false, error.message)
        }
    }
}
