// `environ` is a variable to the compiler.
#if canImport(Darwin)
    @preconcurrency import Darwin
#elseif canImport(Musl)
    @preconcurrency import Musl
#else
    @preconcurrency import Glibc
#endif

/// This executable once more, or one beside it, with its standard input and output in our hands.
///
/// Made of C calls: Foundation's `Process` would bring all of Foundation into the memory that is measured.
final class ChildProcess {
    private let pid: pid_t
    /// Closed when the child shall end, and by the system when this process is killed.
    private var input: CInt
    private let output: CInt

    /// - Parameters:
    ///   - program: another program; without it: this one.
    ///   - core: the only core that the child may use (Linux only); nil: all.
    init(program: String = program, _ arguments: [String], core: Int? = nil) throws {
        let input = try Self.pipeEnds()
        let output: (read: CInt, write: CInt)
        do {
            output = try Self.pipeEnds()
        } catch {
            close(input.read)
            close(input.write)
            throw error
        }
        // The child has its own copies of its ends; ours would hide from us that it has ended.
        defer {
            close(input.read)
            close(output.write)
        }
        do {
            pid = try Self.spawn(
                core.map { ["taskset", "-c", "\($0)", program] + arguments } ?? [program] + arguments,
                standardInput: input.read,
                standardOutput: output.write
            )
        } catch {
            close(input.write)
            close(output.read)
            throw error
        }
        self.input = input.write
        self.output = output.read
    }

    deinit {
        closeInput()
        close(output)
    }

    /// The next line without its end; nil when there is none.
    func line() -> String? {
        var bytes: [UInt8] = []
        var byte: UInt8 = 0
        while read(output, &byte, 1) == 1 {
            if byte == 0x0A { return String(decoding: bytes, as: UTF8.self) }
            bytes.append(byte)
        }
        return bytes.isEmpty ? nil : String(decoding: bytes, as: UTF8.self)
    }

    /// What is left of the output, until the child closes it.
    func rest() -> [UInt8] {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = read(output, &chunk, chunk.count)
            if count > 0 { bytes.append(contentsOf: chunk[..<count]) } else { return bytes }
        }
    }

    func closeInput() {
        guard input >= 0 else { return }
        close(input)
        input = -1
    }

    /// Waits for the end of a child that ends by itself.
    ///
    /// - Returns: its exit status; 128 and the signal's number if it was killed.
    func wait() -> Int {
        var status: CInt = 0
        while waitpid(pid, &status, 0) < 0, errno == EINTR {}
        return Self.exitStatus(status)
    }

    /// Closes the child's input and kills it if that does not end it within five seconds.
    func end() {
        closeInput()
        var status: CInt = 0
        for _ in 0..<500 {
            if waitpid(pid, &status, WNOHANG) != 0 { return }
            usleep(10_000)
        }
        kill(pid, SIGKILL)
        waitpid(pid, &status, 0)
    }

    /// Runs another program and waits for its end; nil if it could not be started.
    static func status(of command: [String]) -> Int? {
        guard let pid = try? spawn(command, standardInput: STDIN_FILENO, standardOutput: STDOUT_FILENO) else {
            return nil
        }
        var status: CInt = 0
        while waitpid(pid, &status, 0) < 0, errno == EINTR {}
        return exitStatus(status)
    }

    /// What was started, wherever it was found.
    static let program: String = {
        var path = [CChar](repeating: 0, count: 4096)
        let count = readlink("/proc/self/exe", &path, path.count)
        guard count > 0 else { return CommandLine.arguments[0] }
        return String(decoding: path[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }()

    /// Another product of this package, which is built into the same folder.
    static func sibling(_ name: String) -> String {
        String(program[..<(program.lastIndex(of: "/").map { program.index(after: $0) } ?? program.startIndex)]) + name
    }

    private static func exitStatus(_ status: CInt) -> Int {
        let signal = status & 0x7F
        return signal == 0 ? Int((status >> 8) & 0xFF) : 128 + Int(signal)
    }

    private static func spawn(
        _ command: [String],
        standardInput: CInt,
        standardOutput: CInt
    ) throws -> pid_t {
        #if os(Linux)
            var actions = posix_spawn_file_actions_t()
        #else
            var actions: posix_spawn_file_actions_t?
        #endif
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, standardInput, STDIN_FILENO)
        posix_spawn_file_actions_adddup2(&actions, standardOutput, STDOUT_FILENO)
        var strings: [UnsafeMutablePointer<CChar>?] = command.map { strdup($0) }
        strings.append(nil)
        defer { for string in strings { free(string) } }
        var pid: pid_t = 0
        let code = posix_spawnp(&pid, command[0], &actions, nil, &strings, environ)
        guard code == 0 else { throw ProcessError("a process did not start: error \(code)") }
        return pid
    }

    /// Both ends are closed on exec: a child that held the writing end of its own input would never see its end.
    private static func pipeEnds() throws -> (read: CInt, write: CInt) {
        var ends: [CInt] = [0, 0]
        guard pipe(&ends) == 0 else { throw ProcessError("no pipe: error \(errno)") }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        return (ends[0], ends[1])
    }
}

struct ProcessError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) {
        self.description = description
    }
}
