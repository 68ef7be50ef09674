import APNSControl
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

    /// Writes all recorded pushes and broadcasts, in their order.
    func write(_ simulator: Simulator) throws {
        var last = 0
        while true {
            let pushes = simulator.received(after: last, limit: 256)
            guard let end = pushes.last else { break }
            last = end.order
            try self.check(SystemFile.write(pushes.flatMap { PushJSON(simulator, $0).line }, to: self.descriptor))
        }
        try self.check(Files.rename(self.copy, self.path))
    }

    private func check(_ error: SystemError?) throws {
        guard let error else { return }
        throw InputOutputError(description: "--ledger: '\(self.path)' cannot be written: \(error)")
    }
}
