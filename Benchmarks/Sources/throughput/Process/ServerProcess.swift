/// The simulator in a process of its own: its work is then no part of the client's CPU time.
final class ServerProcess {
    let port: Int
    let caFile: String
    private let host: String
    private let process: ChildProcess
    private let network: RoutedNetwork?

    /// - Parameters:
    ///   - behaviour: how the simulator responds.
    ///   - core: the only core that the server may use; nil: all.
    ///   - network: the network in which the server listens; nil: this machine's loopback. `end()` ends it, too.
    init(
        _ behaviour: ServerBehaviour = ServerBehaviour(),
        core: Int? = nil,
        network: RoutedNetwork? = nil
    ) throws {
        self.network = network
        if network == nil {
            host = "localhost"
            process = try ChildProcess(["--serve"] + behaviour.arguments, core: core)
        } else {
            var behaviour = behaviour
            behaviour.host = RoutedNetwork.serverAddress
            host = behaviour.host
            process = try ChildProcess(
                program: "ip",
                ["netns", "exec", "server", ChildProcess.program, "--serve"] + behaviour.arguments,
                core: core
            )
        }
        guard let port = process.line().flatMap({ Self.value(of: "port", in: $0) }).flatMap({ Int($0) }),
            let caFile = process.line().flatMap({ Self.value(of: "ca-file", in: $0) })
        else {
            process.end()
            network?.end()
            throw ProcessError("the server process ended before it said where it listens")
        }
        self.port = port
        self.caFile = caFile
    }

    var endpoint: String { "https://\(host):\(port)" }

    /// Lets the server end, and kills it if it does not.
    ///
    /// - Returns: how many pushes it accepted; nil if it did not say.
    @discardableResult
    func end() -> Int? {
        process.closeInput()
        let processed = process.line().flatMap { Self.value(of: "processed", in: $0) }.flatMap { Int($0) }
        process.end()
        network?.end()
        return processed
    }

    private static func value(of name: String, in line: String) -> String? {
        line.hasPrefix(name + "=") ? String(line.dropFirst(name.count + 1)) : nil
    }
}
