// `environ` is a variable to the compiler.
#if canImport(Darwin)
    @preconcurrency import Darwin
#elseif canImport(Musl)
    @preconcurrency import Musl
#else
    @preconcurrency import Glibc
#endif

/// This executable once more, as the server: its work is then no part of the client's CPU time.
///
/// Made of C calls: Foundation's `Process` would bring all of Foundation into the memory that is measured.
final class ServerProcess {
    let port: Int
    let caFile: String
    private let pid: pid_t
    /// The server ends when this is closed, also when this process is killed.
    private let lifeline: CInt

    init() throws {
        let input = try Self.pipeEnds()
        let output = try Self.pipeEnds()
        defer { close(output.read) }
        do {
            // The child has its own copies of its ends; ours would hide from us that it has ended.
            defer {
                close(input.read)
                close(output.write)
            }
            pid = try Self.spawn(["--serve"], standardInput: input.read, standardOutput: output.write)
        } catch {
            close(input.write)
            throw error
        }
        lifeline = input.write
        let reader = LineReader(descriptor: output.read)
        guard let port = reader.value(of: "port").flatMap({ Int($0) }), let caFile = reader.value(of: "ca-file") else {
            close(input.write)
            throw ServerError("the server process ended before it said where it listens")
        }
        self.port = port
        self.caFile = caFile
    }

    /// Lets the server end, and kills it if it does not within five seconds.
    func end() {
        close(lifeline)
        var status: CInt = 0
        for _ in 0..<500 {
            if waitpid(pid, &status, WNOHANG) != 0 { return }
            usleep(10_000)
        }
        kill(pid, SIGKILL)
        waitpid(pid, &status, 0)
    }

    private static func spawn(
        _ arguments: [String],
        standardInput: CInt,
        standardOutput: CInt
    ) throws -> pid_t {
        #if os(Linux)
            // What was started, wherever its file may be by now.
            let path = "/proc/self/exe"
            var actions = posix_spawn_file_actions_t()
        #else
            let path = CommandLine.arguments[0]
            var actions: posix_spawn_file_actions_t?
        #endif
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, standardInput, STDIN_FILENO)
        posix_spawn_file_actions_adddup2(&actions, standardOutput, STDOUT_FILENO)
        var strings: [UnsafeMutablePointer<CChar>?] = ([CommandLine.arguments[0]] + arguments).map { strdup($0) }
        strings.append(nil)
        defer { for string in strings { free(string) } }
        var pid: pid_t = 0
        let code = posix_spawn(&pid, path, &actions, nil, &strings, environ)
        guard code == 0 else { throw ServerError("the server process did not start: error \(code)") }
        return pid
    }

    /// Both ends are closed on exec: a child that held the writing end of its own input would never see its end.
    private static func pipeEnds() throws -> (read: CInt, write: CInt) {
        var ends: [CInt] = [0, 0]
        guard pipe(&ends) == 0 else { throw ServerError("no pipe: error \(errno)") }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        return (ends[0], ends[1])
    }
}

struct ServerError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) {
        self.description = description
    }
}

/// Lines of the form `name=value`.
private struct LineReader {
    var descriptor: CInt

    func value(of name: String) -> String? {
        guard let line = line(), line.hasPrefix(name + "=") else { return nil }
        return String(line.dropFirst(name.count + 1))
    }

    private func line() -> String? {
        var bytes: [UInt8] = []
        var byte: UInt8 = 0
        while read(descriptor, &byte, 1) == 1 {
            if byte == 0x0A { return String(decoding: bytes, as: UTF8.self) }
            bytes.append(byte)
        }
        return nil
    }
}
