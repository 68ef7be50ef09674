import Synchronization

/// Handles SIGINT and SIGTERM as a request to stop. The second signal quits immediately.
enum Interrupts {
    /// The message for the first signal. A signal handler must not allocate, so the texts are constants.
    private static let announcement: StaticString = "stopping after the pushes in flight; press again to quit\n"
    /// Clears the status line on a terminal.
    private static let clearance: StaticString = "\r\u{1B}[K"

    private static let count = Atomic<Int>(0)
    private static let isAnnounced = Atomic<Bool>(false)
    private static let isOnTerminal = Atomic<Bool>(false)

    /// Whether a signal has requested the process to stop.
    static var isStopRequested: Bool { self.count.load(ordering: .relaxed) > 0 }

    /// Installs the handlers. From now on the first signal only sets the flag.
    ///
    /// - Parameter announces: whether the first signal also prints a message to standard error.
    static func handle(announces: Bool = false) {
        guard ToolProcess.current.handlesSignals else { return }
        // Initialises the global before a signal can arrive, so that the handler does not.
        _ = self.isStopRequested
        _ = self.announcement.utf8CodeUnitCount + self.clearance.utf8CodeUnitCount
        self.isOnTerminal.store(StatusLine.shared.isAvailable, ordering: .relaxed)
        self.isAnnounced.store(announces, ordering: .relaxed)
        for number in [SIGINT, SIGTERM] {
            _ = signal(number) { _ in
                if Interrupts.count.wrappingAdd(1, ordering: .relaxed).newValue > 1 { _exit(ExitStatus.interrupted) }
                Interrupts.announce()
            }
        }
    }

    private static func announce() {
        guard self.isAnnounced.load(ordering: .relaxed) else { return }
        let code = errno
        if self.isOnTerminal.load(ordering: .relaxed) {
            _ = write(2, self.clearance.utf8Start, self.clearance.utf8CodeUnitCount)
        }
        _ = write(2, self.announcement.utf8Start, self.announcement.utf8CodeUnitCount)
        errno = code
    }

    /// Returns once a signal has arrived.
    static func wait() async {
        while !self.isStopRequested, !Task.isCancelled {
            try? await Task.sleep(for: .milliseconds(50))
        }
    }
}
