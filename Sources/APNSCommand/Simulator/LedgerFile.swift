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
    ///
    /// - Parameters:
    ///   - path: the path as given. Anything but an earlier ledger is refused.
    ///   - others: the other files that the simulator reads or writes, with their options.
    init(path: String, others: [(option: String, path: String)] = []) throws {
        self.path = try Self.checked(path)
        self.copy = try Self.checked(Files.copy(of: self.path))
        try Files.checkDistinct(outputs: [self.path, self.copy].map { ("--ledger", $0) }, inputs: others)
        self.descriptor = try Files.create(self.copy).orUsageError("--ledger", self.copy)
    }

    private static func checked(_ path: String) throws -> String {
        try Files.checkedOutput(path, option: "--ledger", purpose: "a ledger of `apns simulator`") {
            $0.first == UInt8(ascii: "{") && $0.firstRange(of: Array(#""isProcessed":"#.utf8)) != nil
        }
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
            try self.check(SystemFile.write(pushes.flatMap { PushJSON.line(simulator, $0) }, to: self.descriptor))
        }
        try self.check(Files.rename(self.copy, self.path))
    }

    private func check(_ error: SystemError?) throws {
        guard let error else { return }
        throw InputOutputError(description: "--ledger: '\(self.path)' cannot be written: \(error)")
    }
}
