import APNSModel
import APNSPool
import APNSSimulator

/// The file of `apns simulator --ledger`: each push that the simulator received, as a JSON object on a line.
final class LedgerFile: Sendable {
    private struct Row: Encodable {
        var apnsID: String?
        var connection: Int
        var deviceToken: String
        var fate: String
        var faults: [String]?
        var isProcessed: Bool
        var order: Int
        var payloadBytes: Int
        var priority: Int?
        var pushType: String?
        var reason: String?
        var status: Int?
        var streamID: Int32
        var topic: String?

        init(_ push: PushRecord) {
            self.apnsID = push.apnsID?.description.lowercased()
            self.connection = push.connection
            self.deviceToken = push.deviceToken
            self.fate = push.fate.rawValue
            self.faults = push.faults.isEmpty ? nil : push.faults
            self.isProcessed = push.isProcessed
            self.order = push.order
            self.payloadBytes = push.payloadBytes
            self.priority = push.priority?.rawValue
            self.pushType = push.pushType?.rawValue
            self.reason = push.reason?.rawValue
            self.status = push.status
            self.streamID = push.streamID
            self.topic = push.topic
        }
    }

    private let path: String
    /// Renamed to `path` when it is complete, so that an earlier ledger stays until there is another one.
    private let copy: String
    private let descriptor: Int32

    /// Creates the copy, so that a path that cannot be written fails before the simulator starts.
    init(path: String) throws {
        self.path = path
        self.copy = path + ".new"
        self.descriptor = try Files.create(self.copy).orUsageError("--ledger", self.copy)
    }

    deinit {
        SystemFile.close(self.descriptor)
        // It is there only if nothing was written to it.
        Files.remove(self.copy)
    }

    func write(_ pushes: [PushRecord]) throws {
        var bytes: [UInt8] = []
        for (index, push) in pushes.enumerated() {
            bytes.append(contentsOf: JSONText.encode(Row(push)).utf8)
            bytes.append(UInt8(ascii: "\n"))
            guard bytes.count > 64 * 1024 || index == pushes.count - 1 else { continue }
            try self.check(SystemFile.write(bytes, to: self.descriptor))
            bytes.removeAll(keepingCapacity: true)
        }
        try self.check(Files.rename(self.copy, self.path))
    }

    private func check(_ error: SystemError?) throws {
        guard let error else { return }
        throw InputOutputError(description: "--ledger: '\(self.path)' cannot be written: \(error)")
    }
}
