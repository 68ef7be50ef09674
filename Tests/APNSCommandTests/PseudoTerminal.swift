import Foundation
import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// The tool with a terminal of its own, on which Ctrl-C is a key.
final class PseudoTerminal: Sendable {
    struct Failure: Error {}

    private let master: Int32
    private let process: Process
    private let screen = Mutex<[UInt8]>([])
    /// Whether all has been read that was written.
    private let isReadOut = Atomic<Bool>(false)

    /// - Parameter outputGoesTo: a file for standard output; nil: the terminal.
    init(
        _ arguments: [String],
        columns: UInt16,
        environment: [String: String] = [:],
        outputGoesTo file: FileHandle? = nil
    ) throws {
        let master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC)
        // TIOCSPTLCK and TIOCGPTN, which are macros: unlocks the other end, and gives its number.
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
        // It makes standard input the controlling terminal, from which signals come.
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
        try process.run()
        try? handle.close()
        let thread = Thread { [weak self] in
            var bytes = [UInt8](repeating: 0, count: 4096)
            while true {
                let count = read(master, &bytes, bytes.count)
                // When the last process has closed the other end it is an error.
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

    /// All that was written, control sequences included.
    var text: String { self.screen.withLock { String(decoding: $0, as: UTF8.self) } }

    /// What was shown in one place after another.
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
        // What it wrote last may still be on its way here.
        guard try await eventually({ !self.process.isRunning && self.isReadOut.load(ordering: .acquiring) }) else {
            throw Failure()
        }
        return self.process.terminationStatus
    }
}
