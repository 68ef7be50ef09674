/// The simulator in a process of its own: its work is then no part of the client's CPU time.
final class ServerProcess {
    let port: Int
    let caFile: String
    private let process: ChildProcess

    init(_ behaviour: ServerBehaviour = ServerBehaviour(), core: Int? = nil) throws {
        process = try ChildProcess(["--serve"] + behaviour.arguments, core: core)
        guard let port = process.line().flatMap({ Self.value(of: "port", in: $0) }).flatMap({ Int($0) }),
            let caFile = process.line().flatMap({ Self.value(of: "ca-file", in: $0) })
        else {
            process.end()
            throw ProcessError("the server process ended before it said where it listens")
        }
        self.port = port
        self.caFile = caFile
    }

    var endpoint: String { "https://localhost:\(port)" }

    /// Lets the server end, and kills it if it does not.
    ///
    /// - Returns: how many pushes it accepted; nil if it did not say.
    @discardableResult
    func end() -> Int? {
        process.closeInput()
        let processed = process.line().flatMap { Self.value(of: "processed", in: $0) }.flatMap { Int($0) }
        process.end()
        return processed
    }

    private static func value(of name: String, in line: String) -> String? {
        line.hasPrefix(name + "=") ? String(line.dropFirst(name.count + 1)) : nil
    }
}
