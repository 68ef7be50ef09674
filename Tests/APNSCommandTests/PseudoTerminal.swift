import Foundation
import Synchronization
import TestSupport

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// Runs the tool in a pseudo-terminal of its own, so that a test can press Ctrl-C.
final class PseudoTerminal: Sendable {
    struct Failure: Error {}

    private let master: Int32
    private let process: Process
    private let screen = Mutex<[UInt8]>([])
    /// Whether all output has been read.
    private let isReadOut = Atomic<Bool>(false)

    /// - Parameter outputGoesTo: a file for standard output; nil: the terminal.
    init(
        _ arguments: [String],
        columns: UInt16,
        environment: [String: String] = [:],
        outputGoesTo file: FileHandle? = nil
    ) throws {
        let master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC)
        // TIOCSPTLCK and TIOCGPTN, which are macros: unlock the other end and return its number.
        var isLocked: Int32 = 0
        var number: UInt32 = 0
        guard master >= 0, ioctl(master, 0x4004_5431, &isLocked) == 0, ioctl(master, 0x8004_5430, &number) == 0 else {
            throw Failure()
        }
        self.master = master
        let slave = open("/dev/pts/\(number)", O_RDWR | O_NOCTTY | O_CLOEXEC)
        guard slave >= 0 else { throw Failure() }
        var size = winsize(ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0)
        guard ioctl(slave, UInt(TIOCSWINSZ), &size) == 0 else { throw Failure() }
        let handle = FileHandle(fileDescriptor: slave, closeOnDealloc: true)
        let process = Process()
        // setsid makes standard input the controlling terminal, which sends the signals.
        process.executableURL = URL(fileURLWithPath: "/usr/bin/setsid")
        process.arguments = ["--ctty", "--wait", Tool.path] + arguments
        var variables = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("APNS_") }
        variables["TERM"] = "xterm"
        variables["NO_COLOR"] = nil
        variables.merge(environment) { $1 }
        process.environment = variables
        process.standardInput = handle
        process.standardOutput = file ?? handle
        process.standardError = handle
        self.process = process
        try process.start()
        try? handle.close()
        let thread = Thread { [weak self] in
            var bytes = [UInt8](repeating: 0, count: 4096)
            while true {
                let count = read(master, &bytes, bytes.count)
                // Reading fails once the last process has closed the other end.
                guard let self else { return }
                guard count > 0 else { return self.isReadOut.store(true, ordering: .releasing) }
                self.screen.withLock { $0 += bytes[..<count] }
            }
        }
        thread.start()
    }

    deinit {
        if self.process.isRunning { self.process.terminate() }
        close(self.master)
    }

    /// All output, control sequences included.
    var text: String { self.screen.withLock { String(decoding: $0, as: UTF8.self) } }

    /// The texts that the terminal showed, one after another.
    var frames: [String] {
        self.text.split(whereSeparator: { $0 == "\r" || $0 == "\n" || $0 == "\r\n" }).map {
            String($0).replacing(#/\u{1B}\[[0-9;]*[A-Za-z]/#, with: "")
        }
    }

    func type(_ text: String) {
        let bytes = Array(text.utf8)
        _ = write(self.master, bytes, bytes.count)
    }

    func end() async throws -> Int32 {
        // The last output may not have been read yet.
        guard await eventually({ !self.process.isRunning && self.isReadOut.load(ordering: .acquiring) }) else {
            throw Failure()
        }
        return self.process.terminationStatus
    }
}
