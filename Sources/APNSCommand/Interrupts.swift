import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// SIGINT and SIGTERM as a request to stop. The second one quits at once.
enum Interrupts {
    private static let count = Atomic<Int>(0)

    /// Whether somebody asked the process to stop.
    static var isStopRequested: Bool { self.count.load(ordering: .relaxed) > 0 }

    /// From now on the first signal only sets the flag.
    static func handle() {
        // Touched before a signal can come, so that the handler makes no global.
        _ = self.isStopRequested
        for number in [SIGINT, SIGTERM] {
            _ = signal(number) { _ in
                if Interrupts.count.wrappingAdd(1, ordering: .relaxed).newValue > 1 { _exit(ExitStatus.interrupted) }
            }
        }
    }

    /// Returns when a signal has come.
    static func wait() async {
        while !self.isStopRequested, !Task.isCancelled {
            try? await Task.sleep(for: .milliseconds(50))
        }
    }
}
