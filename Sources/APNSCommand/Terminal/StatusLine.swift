import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// A line at the bottom of the terminal that changes while something is under way. What is printed meanwhile goes above
/// it. Where standard error is no terminal, it is never shown.
final class StatusLine: Sendable {
    static let shared = StatusLine()

    /// Whether it can be shown at all.
    let isAvailable: Bool
    /// Whether it may have colours (https://no-color.org).
    let hasColor: Bool
    private let isShown = Mutex(false)

    private init() {
        let terminal = getenv("TERM").map { String(cString: $0) } ?? ""
        self.isAvailable = Standard.error.isTerminal && !terminal.isEmpty && terminal != "dumb"
        self.hasColor = getenv("NO_COLOR").map { $0.pointee == 0 } ?? true
    }

    /// The terminal's columns, which change when its window does.
    var width: Int {
        var size = winsize()
        guard ioctl(Standard.error.descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
        return Int(size.ws_col)
    }

    /// - Parameter text: not wider than the terminal, control sequences aside.
    func show(_ text: String) {
        guard self.isAvailable else { return }
        self.isShown.withLock { isShown in
            isShown = true
            Standard.error.write("\r\(text)\u{1B}[K")
        }
    }

    /// Takes the line away.
    func clear() {
        self.isShown.withLock { self.clear(&$0) }
    }

    /// Takes the line away, until it is shown again, and prints something in its place.
    func print(_ text: String, to standard: Standard) {
        self.isShown.withLock { isShown in
            self.clear(&isShown)
            standard.write(text + "\n")
        }
    }

    private func clear(_ isShown: inout Bool) {
        guard isShown else { return }
        isShown = false
        Standard.error.write("\r\u{1B}[K")
    }
}
