import Foundation
import Logging
public import PostgresPushQueue
public import PushQueue
import SQLitePushQueue

extension RelayProcess {
    /// A file or a database with a queue, for `apns-relay move`.
    public enum QueuePlace: Sendable, CustomStringConvertible {
        case file(String)
        case database(ConnectionSettings)

        /// - Parameter text: a connection URL or string of PostgreSQL; any text without `=` or `postgres…://` is a path.
        /// - Throws: `QueueError` if it looks like a connection but is none.
        public init(_ text: String) throws(QueueError) {
            let isURL = ["postgres://", "postgresql://"].contains { text.hasPrefix($0) }
            self = isURL || text.contains("=") ? .database(try ConnectionSettings(text)) : .file(text)
        }

        public var description: String {
            switch self {
            case .file(let path): path
            case .database(let settings): settings.description
            }
        }

        fileprivate func open(mustExist: Bool, logger: Logger) async throws(QueueError) -> any MovablePushQueue {
            switch self {
            case .file(let path):
                guard !mustExist || FileManager.default.fileExists(atPath: path) else {
                    throw QueueError(code: .unusable, message: "There is no file \(path).")
                }
                return try await SQLitePushQueue.open(file: path, logger: logger)
            case .database(let settings):
                var options = PostgresPushQueue.Options(connection: settings)
                options.connections = 2
                options.migrates = !mustExist
                return try await PostgresPushQueue.open(options, logger: logger)
            }
        }
    }

    /// Moves a queue, or finishes a move that was interrupted. All relays of both places must be stopped.
    ///
    /// - Parameter report: receives a line for a person about once a second.
    /// - Returns: what was moved, for a person.
    /// - Throws: `QueueError`.
    public static func move(
        from source: QueuePlace,
        to target: QueuePlace,
        report: @escaping @Sendable (String) -> Void
    ) async throws -> String {
        let logger = Logger(label: "apns-relay") { _ in SwiftLogNoOpLogHandler() }
        let from = try await source.open(mustExist: true, logger: logger)
        let to: any MovablePushQueue
        do {
            to = try await target.open(mustExist: false, logger: logger)
        } catch {
            await from.close()
            throw error
        }
        let lastReport = LastReport()
        let move = QueueMove(
            from: from,
            to: to,
            places: ("\(source)", "\(target)"),
            // Not the members and duties of a fleet, nor its provider tokens.
            valuesWithPrefixes: ["webhook", BatchStore.prefix, FleetKey.settings, "clock", SubscriptionStore.prefix]
        ) { progress in
            guard await lastReport.isDue() else { return }
            report(
                progress.inFlight > 0
                    ? "waiting for \(progress.inFlight) pushes that are being sent; at the latest, their leases end"
                    : "\(progress.outcomes) outcomes, \(progress.pushes) pushes, \(progress.keys) keys"
            )
        }
        let result: Result<QueueMove.Progress, any Error>
        do {
            result = .success(try await move.run())
        } catch {
            result = .failure(error)
        }
        await from.close()
        await to.close()
        let moved = try result.get()
        return moved == QueueMove.Progress()
            ? "Nothing was left to move. The queue is in \(target)."
            : "Moved \(moved.outcomes) outcomes, \(moved.pushes) pushes without an outcome and \(moved.keys) idempotency keys."
    }

    /// Gives up an unfinished move, so that relays can use the source again.
    ///
    /// - Throws: `QueueError` if the source is not being moved, or was moved completely.
    public static func cancelMove(of source: QueuePlace) async throws(QueueError) {
        let logger = Logger(label: "apns-relay") { _ in SwiftLogNoOpLogHandler() }
        let queue = try await source.open(mustExist: true, logger: logger)
        do throws(QueueError) {
            try await QueueMove.cancel(queue)
        } catch {
            await queue.close()
            throw error
        }
        await queue.close()
    }

    private actor LastReport {
        private var next = ContinuousClock.now

        func isDue() -> Bool {
            guard ContinuousClock.now >= self.next else { return false }
            self.next = ContinuousClock.now.advanced(by: .seconds(1))
            return true
        }
    }
}
