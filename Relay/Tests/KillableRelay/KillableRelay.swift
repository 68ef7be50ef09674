import APNSRelay
import Foundation
import PushQueue

/// A relay that kills itself with SIGKILL, or stops itself with SIGSTOP, at a named point, for tests.
///
/// The environment variable `KILL_AT` or `STOP_AT` names the point, for example `markWritten.after:3`: after the third
/// call of `markWritten` has returned.
@main
struct KillableRelay {
    static func main() async {
        do {
            try await Self.serve()
        } catch {
            // An error that leaves `main` is a crash, and writes a backtrace, which takes seconds.
            FileHandle.standardError.write(Data("Error: \(error)\n".utf8))
            exit(1)
        }
    }

    private static func serve() async throws {
        let environment = ProcessInfo.processInfo.environment
        let killPoint = environment["KILL_AT"].flatMap(KillPoint.init)
        let stopPoint = environment["STOP_AT"].flatMap(KillPoint.init)
        try await RelayProcess.serve(file: environment["SETTINGS_FILE"]) { queue in
            guard let point = killPoint ?? stopPoint else { return queue }
            return KillingQueue(queue, point: point, stops: killPoint == nil)
        }
    }
}

/// A call of the queue, and whether to die before or after it.
struct KillPoint: Sendable, Hashable {
    var call: String
    var isAfter: Bool
    var count: Int

    init?(_ text: String) {
        let parts = text.split(whereSeparator: { $0 == "." || $0 == ":" })
        guard parts.count == 3, parts[1] == "before" || parts[1] == "after", let count = Int(parts[2]) else {
            return nil
        }
        self.call = String(parts[0])
        self.isAfter = parts[1] == "after"
        self.count = count
    }
}
