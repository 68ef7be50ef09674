import APNSPool

/// The standard streams, written to without a C library buffer: output is complete when a call returns.
struct Standard: Sendable {
    static var output: Standard { Standard(descriptor: ToolProcess.current.output) }
    static var error: Standard { Standard(descriptor: ToolProcess.current.error) }

    let descriptor: Int32

    var isTerminal: Bool { isatty(self.descriptor) == 1 }

    func print(_ text: String) {
        if self.isTerminal {
            // Standard output appears on the same screen as the status line.
            StatusLine.shared.print(text, to: self)
        } else {
            self.write(text + "\n")
        }
    }

    /// Writes text. A reader that has exited (`apns … | head`) is not reported as an error.
    func write(_ text: String) {
        _ = SystemFile.write(Array(text.utf8), to: self.descriptor)
    }

    /// Makes `write` report an exited reader as an error, instead of a signal that terminates the process.
    static func ignoreBrokenPipes() {
        _ = signal(SIGPIPE, SIG_IGN)
    }
}
