import APNSPool
import APNSSimulator

/// The file of `apns simulator --ledger`: each push that the simulator received, as a JSON object on a line.
final class LedgerFile: Sendable {
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

    func write(_ pushes: [PushRecord], of simulator: Simulator) throws {
        var bytes: [UInt8] = []
        for (index, push) in pushes.enumerated() {
            bytes.append(contentsOf: PushJSON(simulator, push).line)
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
