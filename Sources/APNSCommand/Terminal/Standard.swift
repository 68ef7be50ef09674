import APNSPool

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// The standard streams, written to without a buffer of the C library: what was printed is out.
struct Standard: Sendable {
    static var output: Standard { Standard(descriptor: ToolProcess.current.output) }
    static var error: Standard { Standard(descriptor: ToolProcess.current.error) }

    let descriptor: Int32

    var isTerminal: Bool { isatty(self.descriptor) == 1 }

    func print(_ text: String) {
        if self.isTerminal {
            // Also what goes to standard output stands on the same screen.
            StatusLine.shared.print(text, to: self)
        } else {
            self.write(text + "\n")
        }
    }

    /// Whoever reads may have gone (`apns … | head`); that is no reason to complain.
    func write(_ text: String) {
        _ = SystemFile.write(Array(text.utf8), to: self.descriptor)
    }

    /// A reader that has gone shows as an error of `write`, not as a signal that ends the process.
    static func ignoreBrokenPipes() {
        _ = signal(SIGPIPE, SIG_IGN)
    }
}
