import Synchronization

/// A line at the bottom of the terminal that is updated while the tool works. Other output appears above it. If
/// standard error is not a terminal, the line is never shown.
final class StatusLine: Sendable {
    static let shared = StatusLine()

    /// Whether the line can be shown.
    let isAvailable: Bool
    /// Whether the line may use colours (https://no-color.org).
    let hasColor: Bool
    private let isShown = Mutex(false)

    private init() {
        let terminal = getenv("TERM").map { String(cString: $0) } ?? ""
        self.isAvailable = Standard.error.isTerminal && !terminal.isEmpty && terminal != "dumb"
        self.hasColor = getenv("NO_COLOR").map { $0.pointee == 0 } ?? true
    }

    /// The terminal's width in columns, which changes with its window.
    var width: Int {
        var size = winsize()
        guard ioctl(Standard.error.descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
        return Int(size.ws_col)
    }

    /// - Parameter text: at most as wide as the terminal, not counting control sequences.
    func show(_ text: String) {
        guard self.isAvailable else { return }
        self.isShown.withLock { isShown in
            isShown = true
            Standard.error.write("\r\(text)\u{1B}[K")
        }
    }

    /// Clears the line.
    func clear() {
        self.isShown.withLock { self.clear(&$0) }
    }

    /// Clears the line until it is shown again, and prints text in its place.
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
