import APNSSimulator
import Dispatch

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

#if canImport(Darwin)
    import Darwin
#elseif canImport(Musl)
    import Musl
#else
    import Glibc
#endif

/// `throughput --serve`: the simulator, until standard input ends. So it ends with whoever started it, however that ends.
enum Server {
    static func serve(_ behaviour: ServerBehaviour) async throws {
        // The reader of our last line may have gone.
        signal(SIGPIPE, SIG_IGN)
        let simulator = try await Simulator.start(behaviour.simulator)
        let caFile = FileManager.default.temporaryDirectory.appending(path: "throughput-ca-\(UUID().uuidString).pem")
        try Data(simulator.certificateAuthorityPEM.utf8).write(to: caFile, options: .withoutOverwriting)
        defer { try? FileManager.default.removeItem(at: caFile) }
        announce("port=\(simulator.port)\nca-file=\(caFile.path(percentEncoded: false))\n")
        await endOfInput()
        announce("processed=\(simulator.record.requestsProcessed)\n")
        await simulator.stop()
    }

    /// At once, also where standard output is a pipe, which `print` would buffer.
    static func announce(_ text: String) {
        let bytes = Array(text.utf8)
        _ = bytes.withUnsafeBytes { write(STDOUT_FILENO, $0.baseAddress, $0.count) }
    }

    private static func endOfInput() async {
        await withCheckedContinuation { continuation in
            // A thread that may block: the simulator may need all of the concurrency pool's.
            DispatchQueue.global().async {
                var bytes = [UInt8](repeating: 0, count: 256)
                while read(STDIN_FILENO, &bytes, bytes.count) > 0 {}
                continuation.resume()
            }
        }
    }
}
