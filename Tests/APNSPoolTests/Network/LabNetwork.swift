import Foundation
import Synchronization
import TestSupport

/// The environment of the tests that `ci/steps/network-lab` runs. `ci/lib/network-namespaces` creates it: the tests are in the
/// client's network namespace, and the namespace `server` exists.
enum Lab {
    private static let variables = ProcessInfo.processInfo.environment

    /// The program that forwards packets between the namespaces (`ci/lib/network-router.c`); nil outside the lab.
    static let router = variables["NETWORK_LAB_ROUTER"]
    static let isShort = variables["NETWORK_LAB"] == "short"
    /// Only the cases whose names contain this text run; empty: all.
    static let only = variables["ONLY"] ?? ""
    static let port = 2197
    /// The file for the table of results.
    static let report = variables["NETWORK_LAB_REPORT"] ?? "/dev/stdout"

    struct Failure: Error, CustomStringConvertible {
        var description: String
    }

    /// Runs a shell script as root of the lab.
    static func shell(_ script: String) throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.arguments = ["-ec", script]
        process.standardInput = FileHandle.nullDevice
        let error = Pipe.make()
        process.standardError = error
        try process.start()
        let message = String(decoding: try error.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw Failure(description: "'\(script)' failed: \(message)") }
    }
}

/// A network between the client and the server, with addresses of its own and a router that has the faults of a test.
final class LabNetwork: Sendable {
    private let number: Int
    private let process: Process
    private let input = Pipe.make()
    private let output = Pipe.make()

    var clientDevice: String { "client\(self.number)" }
    /// The server's address. A second one ends with 3. No machine has the addresses that end with 8 and 9.
    var address: String { self.address(2) }
    /// The server's IPv6 address.
    var address6: String { self.address6(2) }
    func address(_ host: Int) -> String { "10.77.\(self.number).\(host)" }
    func address6(_ host: Int) -> String { "fd77:\(self.number)::\(host)" }

    /// - Parameters:
    ///   - number: a number from 1 to 250 that no other network has.
    ///   - commands: the router's commands, as in `set`.
    init(number: Int, _ commands: [String] = []) throws {
        guard let router = Lab.router else { throw Lab.Failure(description: "not in the lab") }
        self.number = number
        let process = Process()
        process.executableURL = URL(fileURLWithPath: router)
        process.arguments = ["client\(number)", "server\(number)", "/run/netns/server"] + commands
        process.standardInput = self.input
        process.standardOutput = self.output
        self.process = process
        try process.start()
        for _ in commands { try self.expect("ok") }
        try self.expect("ready")
        try Lab.shell(
            """
            ip link set client\(number) txqueuelen 10000 up
            ip addr add \(self.address(1))/24 dev client\(number)
            ip addr add \(self.address6(1))/64 dev client\(number) nodad
            ip -n server link set server\(number) txqueuelen 10000 up
            ip -n server route add \(self.address(0))/24 dev server\(number)
            for host in 2 3; do
                ip -n server addr add 10.77.\(number).$host/32 dev server\(number)
                ip -n server addr add fd77:\(number)::$host/64 dev server\(number) nodad
            done
            """
        )
    }

    /// Ends the router, which removes the devices. Without this, they last until the process ends.
    func remove() {
        try? self.input.fileHandleForWriting.close()
        self.process.waitUntilExit()
    }

    /// Gives the router a command: see `ci/lib/network-router.c`.
    func set(_ command: String) throws {
        try self.input.fileHandleForWriting.write(contentsOf: Data((command + "\n").utf8))
        try self.expect("ok")
    }

    private func expect(_ line: String) throws {
        // The router responds within microseconds, or ends.
        let wanted = line + "\n"
        var text = ""
        while text.utf8.count < wanted.utf8.count,
            let bytes = try self.output.fileHandleForReading.read(upToCount: wanted.utf8.count - text.utf8.count),
            !bytes.isEmpty
        { text += String(decoding: bytes, as: UTF8.self) }
        guard text == wanted else { throw Lab.Failure(description: "the router responded '\(text)'") }
    }

    // MARK: Faults beyond the router's

    /// The server's side forgets all TCP connections of this network without telling the client, and responds to their
    /// packets with RST.
    func serverForgets() throws {
        try self.set("both loss 100")
        try Lab.shell(
            "ip netns exec server ss -K dst \(self.address(1)) > /dev/null; "
                + "ip netns exec server ss -K dst '[\(self.address6(1))]' > /dev/null"
        )
        try self.set("both loss 0")
    }

    /// The server loses one of its addresses: packets to it disappear.
    func removeServerAddress(_ host: Int) throws {
        try Lab.shell(
            "ip -n server addr del \(self.address(host))/32 dev server\(self.number); "
                + "ip -n server addr del \(self.address6(host))/64 dev server\(self.number)"
        )
    }
}
