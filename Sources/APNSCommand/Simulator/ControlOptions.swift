import APNSControl
import APNSPool
import APNSSimulator
import ArgumentParser
import NIOCore

/// The options of `apns simulator` for its control API and page.
struct ControlOptions: ParsableArguments {
    private static let defaultKeep = 100_000

    @Option(
        help: ArgumentHelp(
            """
            Serve a page that shows the pushes, and an HTTP API for tests in any language, at this port of 127.0.0.1, \
            or at this address and port; port 0 chooses a free one.
            """,
            valueName: "[address:]port"
        )
    )
    var control: String?

    @Option(
        help: ArgumentHelp(
            "The token that requests to the API must present. Required for an address other than loopback.",
            valueName: "token"
        )
    )
    var controlToken: String?

    @Option(
        help: ArgumentHelp(
            "How many pushes --control keeps at least, default \(Self.defaultKeep); it drops older ones in blocks.",
            valueName: "n"
        )
    )
    var keep: String?

    @Option(
        help: ArgumentHelp(
            """
            What APNs stores for virtual devices that are offline: latest (one push for each topic), all, or \
            collapse-id (one push for each collapse id); default latest.
            """,
            valueName: "rule"
        ),
        completion: .list(OfflineStorage.allCases.map(\.rawValue))
    )
    var offlineStorage: String?

    var isOn: Bool { self.control != nil }

    /// How many pushes the ledger keeps; nil for all of them.
    var keptPushes: Int? { self.isOn ? (try? self.keepNumber()) ?? Self.defaultKeep : nil }

    private func keepNumber() throws -> Int? {
        try self.keep.map { try wholeNumber($0, "--keep", 1...10_000_000) }
    }

    /// What APNs stores for virtual devices that are offline.
    func storageRule() throws -> OfflineStorage {
        guard let offlineStorage else { return .latest }
        guard let rule = OfflineStorage(rawValue: offlineStorage) else {
            let rules = OfflineStorage.allCases.map(\.rawValue).joined(separator: ", ")
            throw UsageError("--offline-storage: '\(offlineStorage)' is not one of \(rules).")
        }
        return rule
    }

    func validate() throws {
        _ = try self.storageRule()
        let keep = try self.keepNumber()
        guard let place = try self.place() else {
            if keep != nil { throw UsageError("--keep needs --control: without it, no payload is kept.") }
            if self.offlineStorage != nil {
                throw UsageError("--offline-storage needs --control: without it, there are no virtual devices.")
            }
            if self.controlToken != nil { throw UsageError("--control-token needs --control.") }
            return
        }
        if let controlToken {
            // The characters that need no encoding in a URL (RFC 3986, section 2.3).
            let characters = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~")
            guard controlToken.count >= 16, controlToken.allSatisfy(characters.contains) else {
                throw UsageError("--control-token needs at least 16 characters: letters, digits, and - . _ ~")
            }
        } else if !place.isLoopback {
            throw UsageError(
                "--control: others can reach '\(place.address)'. Add --control-token with a secret of at least "
                    + "16 characters, or leave the address out."
            )
        }
    }

    private struct Place {
        var address: String
        var port: Int
        var isLoopback: Bool { self.address.hasPrefix("127.") || self.address == "::1" }
        /// The host in a URL.
        var host: String { self.address.contains(":") ? "[\(self.address)]" : self.address }
    }

    private func place() throws -> Place? {
        guard let control else { return nil }
        guard let colon = control.lastIndex(of: ":") else {
            return Place(address: "127.0.0.1", port: try wholeNumber(control, "--control", 0...65535))
        }
        var address = String(control[..<colon])
        if address.hasPrefix("["), address.hasSuffix("]") { address = String(address.dropFirst().dropLast()) }
        guard SimulatorCommand.isAddress(address) else {
            throw UsageError("--control: '\(control)' is neither a port nor an IP address and a port.")
        }
        let port = String(control[control.index(after: colon)...])
        return Place(address: address, port: try wholeNumber(port, "--control", 0...65535))
    }

    /// Starts the server.
    ///
    /// - Parameters:
    ///   - credentials: The endpoint and the commands that the page shows.
    ///   - names: Names of this machine besides the address.
    /// - Returns: The URL of the page, and a task that serves until it is cancelled; nil without `--control`.
    func start(_ simulator: Simulator, credentials: Credentials, names: [String]) async throws -> (
        page: String,
        server: Task<Void, Never>
    )? {
        guard let place = try self.place() else { return nil }
        let hosts = ["localhost", "127.0.0.1", "[::1]", place.host] + names
        let api = ControlAPI(
            simulator: simulator,
            endpoint: credentials.endpoint,
            commands: credentials.commands,
            caFile: credentials.caFile,
            curl: credentials.curl,
            hosts: Set(hosts.map { $0.lowercased() }),
            token: self.controlToken,
            version: APNSTool.configuration.version
        )
        let server: ControlServer
        do {
            server = try await ControlServer(address: place.address, port: place.port, api: api)
        } catch {
            await simulator.stop()
            Standard.error.print("apns: --control \(self.control ?? ""): \(error)")
            throw ExitStatus.configuration
        }
        var host = place.host
        if ["127.0.0.1", "0.0.0.0", "::"].contains(place.address) { host = "localhost" }
        if !place.isLoopback, let name = names.first(where: { !$0.hasPrefix("*") }) { host = name }
        let fragment = self.controlToken.map { "#token=\($0)" } ?? ""
        return ("http://\(host):\(server.port)/\(fragment)", Task { try? await server.run() })
    }
}
