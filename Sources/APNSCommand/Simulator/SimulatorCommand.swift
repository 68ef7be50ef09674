import APNSPool
import APNSSimulator
import ArgumentParser
import APNSTransport
import NIOCore

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// `apns simulator`
struct SimulatorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "simulator",
        abstract: "Runs a server that behaves like APNs, with scripted faults.",
        usage: "apns simulator [<options>]",
        discussion: """
            The simulator makes its own certificate authority and key, or reuses those that an earlier run wrote. It \
            makes APNs' checks and responds with APNs' reasons. It prints how to send to it, and runs until Ctrl-C.

            Write credentials for this tool and for programs that configure the library from their environment:

              apns simulator --port 2197 --write-credentials ./sim
              set -a; . ./sim/apns.env; set +a

            Show the pushes on a page, and let tests in any language ask for them:

              apns simulator --control 8026

            The page explains its keys, hints and faults (press ?). A client that cannot get in, for example because it \
            does not trust ca.pem, is printed here and shown on the page, with the cause and the remedy.

            Add faults: 20 responses 503 after 100 pushes, and one GOAWAY after 500:

              echo '{"faults": [
                {"when": {"skip": 100, "times": 20},
                 "effect": {"kind": "respond", "reason": "ServiceUnavailable"}},
                {"when": {"skip": 500}, "effect": {"kind": "goaway"}}
              ]}' > faults.json
              apns simulator --faults faults.json
            """
    )

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("The port; 0 chooses a free one.", valueName: "n")
    )
    var port: String = "2197"

    @Option(
        help: ArgumentHelp(
            "The address to listen on; 0.0.0.0 or :: for all of this machine's addresses.",
            valueName: "address"
        )
    )
    var listen: String = "127.0.0.1"

    @Option(
        help: ArgumentHelp(
            "A host name or address that clients use, to be added to the simulator's certificate. Can be repeated.",
            valueName: "host"
        )
    )
    var name: [String] = []

    @Option(
        help: ArgumentHelp("A fault script as JSON.", valueName: "file"),
        completion: .file(extensions: ["json"])
    )
    var faults: String?

    @Option(
        help: ArgumentHelp(
            "The seed of random faults; the same number repeats them. Default: a new one, which is printed.",
            valueName: "n"
        )
    )
    var seed: String?

    @Option(
        help: ArgumentHelp(
            """
            The folder for ca.pem, its key, AuthKey_….p8 and apns.env. The next run reuses these files. Default: a \
            folder that is removed at the end.
            """,
            valueName: "folder"
        ),
        completion: .directory
    )
    var writeCredentials: String?

    @Option(
        help: ArgumentHelp(
            "The file to which all pushes are written at the end: a JSON object on each line.",
            valueName: "file"
        ),
        completion: .file(extensions: ["ndjson"])
    )
    var ledger: String?

    @OptionGroup var control: ControlOptions

    @Flag(help: "Accept requests without a provider token.")
    var withoutToken = false

    @Flag(
        help: """
            Accept any number of provider tokens of one key. Without this option, a second one within 20 minutes gets \
            429 TooManyProviderTokenUpdates.
            """
    )
    var withoutTokenLimit = false

    func validate() throws {
        _ = try self.portNumber()
        _ = try self.seedNumber()
        guard Self.isAddress(self.listen) else {
            throw ValidationError("--listen: '\(self.listen)' is not an IP address.")
        }
        for name in self.name where !Self.isName(name) {
            throw ValidationError("--name: '\(name)' is not a host name or IP address.")
        }
    }

    static func isAddress(_ text: String) -> Bool { (try? SocketAddress(ipAddress: text, port: 0)) != nil }

    /// Whether a certificate can contain this name. Its first label may be `*`.
    private static func isName(_ text: String) -> Bool {
        if self.isAddress(text) { return true }
        let labels = text.split(separator: ".", omittingEmptySubsequences: false)
        return text.utf8.count <= 253
            && labels.enumerated().allSatisfy { index, label in
                (index == 0 && label == "*")
                    || (1...63).contains(label.utf8.count)
                        && label.utf8.allSatisfy { byte in
                            byte == UInt8(ascii: "-") || (0x30...0x39).contains(byte)
                                || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
                        }
            }
    }

    /// The host under which clients reach the simulator.
    private var host: String {
        if let name = self.name.first(where: { !$0.hasPrefix("*") }) { return name }
        // Not for ::1: where localhost has only an IPv4 address, it does not lead there.
        return ["127.0.0.1", "0.0.0.0", "::"].contains(self.listen) ? "localhost" : self.listen
    }

    private func portNumber() throws -> Int {
        try wholeNumber(self.port, "--port", 0...65535)
    }

    private func seedNumber() throws -> UInt64? {
        guard let seed else { return nil }
        return UInt64(try wholeNumber(seed, "--seed", 0...Int.max))
    }

    func run() async throws {
        let script = try self.script()
        // Short enough to type again.
        let seed = try self.seedNumber() ?? script.seed ?? UInt64.random(in: 1...999_999_999)
        let given = self.writeCredentials.map { URL(filePath: $0, directoryHint: .isDirectory).absoluteURL }
        let saved = given.flatMap {
            SavedCredentials(folder: $0, needsToken: !self.withoutToken, now: WallTime.now)
        }
        let faults = [self.faults].compactMap(\.self).map { (option: "--faults", path: $0) }
        let credentialFiles = given.map(SavedCredentials.files) ?? []
        let others = faults + credentialFiles.map { (option: "--write-credentials", path: $0) }
        let ledger = try self.ledger.map { try LedgerFile(path: $0, others: others) }
        let key = self.withoutToken ? nil : saved?.key ?? SimulatedKey()
        let folder = given ?? FileManager.default.temporaryDirectory.appending(path: "apns-simulator-\(UUID())")
        let caFile = Credentials.caFile(in: folder)
        let simulator = try await self.start(script, seed: seed, key, saved?.authority, caFile: caFile)
        Interrupts.handle()
        let credentials = Credentials(simulator, key: key, host: self.host, folder: folder)
        // Before the credentials are written: a port that is taken leaves no key behind.
        let control = try await self.control.start(simulator, credentials: credentials, names: self.name)
        defer { if self.writeCredentials == nil { try? FileManager.default.removeItem(at: folder) } }
        try credentials.write()
        Standard.output.print(credentials.explanation)
        if let control { Standard.output.print("\nThe pushes appear at \(control.page)") }
        if let saved {
            let reused = saved.key == nil ? "certificate authority" : "certificate authority and key"
            Standard.output.print("\nThe \(reused) of an earlier run: clients that use this endpoint need no restart.")
        }
        if !script.faults.isEmpty { Standard.output.print("\nTo repeat these faults, give --seed \(seed).") }
        await Interrupts.wait()
        control?.server.cancel()
        await control?.server.value
        await simulator.stop()
        try ledger?.write(simulator)
        let record = simulator.record
        if !record.faults.isEmpty {
            let faults = record.faults.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }
            Standard.output.print("faults: \(faults.joined(separator: ", "))")
        }
        Standard.output.print(
            "\(record.requestsReceived - record.channelCallsReceived) pushes received, "
                + "\(record.requestsProcessed - record.channelCallsProcessed) of them accepted, "
                + "\(record.connectionsOpened) connections"
                + (record.connectionsFailed > 0 ? " (\(record.connectionsFailed) failed)" : "")
                + (record.providerTokens > 0 ? ", \(record.providerTokens) provider tokens" : "")
                + (record.channelCallsReceived > 0 ? ", \(record.channelCallsReceived) channel calls" : "")
        )
    }

    /// The script, without its own seed if the command line sets one.
    private func script() throws -> FaultScript {
        guard let path = self.faults else { return FaultScript() }
        let json = try Files.contents(of: path, option: "--faults", limit: 16 * 1024 * 1024)
        do {
            var script = try FaultScript(json: json)
            if self.seed != nil { script.seed = nil }
            return script
        } catch {
            throw UsageError("--faults: '\(path)': \(error)")
        }
    }

    private var recording: Simulator.Recording {
        if self.control.isOn { return .pushes }
        return self.ledger == nil ? .counts : .pushesWithoutPayload
    }

    private func start(
        _ script: FaultScript,
        seed: UInt64,
        _ key: SimulatedKey?,
        _ authority: TLSIdentity?,
        caFile: String
    ) async throws -> Simulator {
        var configuration = Simulator.Configuration()
        configuration.host = self.listen
        configuration.port = try self.portNumber()
        configuration.certificateNames += self.name + [self.listen]
        configuration.certificateAuthority = authority
        configuration.credential = key.map { .keys([Simulator.Key($0)]) } ?? .none
        configuration.limitsProviderTokenUpdates = !self.withoutTokenLimit
        configuration.offlineStorage = try self.control.storageRule()
        configuration.recording = self.recording
        configuration.keep = self.control.keptPushes
        configuration.faults = script
        configuration.seed = seed
        configuration.onFailedConnection = { Self.log($0, caFile: caFile) }
        do {
            return try await Simulator.start(configuration)
        } catch {
            Standard.error.print("apns: --port \(configuration.port), --listen \(self.listen): \(error)")
            throw ExitStatus.configuration
        }
    }

    /// Whether the failed connection with this number in its group is printed: the first, the tenth, the hundredth and so
    /// on. A client may try without end.
    static func isPrinted(_ count: Int) -> Bool {
        var number = count
        while number > 1, number.isMultiple(of: 10) { number /= 10 }
        return number == 1
    }

    private static func log(_ failed: FailedConnection, caFile: String) {
        guard Self.isPrinted(failed.count) else { return }
        let times = failed.count > 1 ? ", \(failed.count) in this way" : ""
        Standard.error.print(
            "apns: connection \(failed.connection) failed\(times): \(failed.message) \(failed.remedy(caFile: caFile))"
        )
    }
}
