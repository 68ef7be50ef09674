import APNSPool
import APNSSimulator
import ArgumentParser

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The files that other programs need to use a simulator.
struct Credentials {
    private static let exampleToken = "740f4707bebcf74f9b7c25d48e3358945f6aa01da5ddb387462c7eaf61bb78ad"

    private let simulator: Simulator
    /// The key that signs provider tokens; nil if the simulator requires none.
    private let key: SimulatedKey?
    private let host: String
    private let folder: URL

    init(_ simulator: Simulator, key: SimulatedKey?, host: String = "localhost", folder: URL) {
        self.simulator = simulator
        self.key = key
        self.host = host.contains(":") ? "[\(host)]" : host
        self.folder = folder
    }

    var endpoint: String { "https://\(self.host):\(self.simulator.port)" }
    var caFile: String { Self.caFile(in: self.folder) }
    private var environmentFile: String { self.path(SavedCredentials.environmentFile) }

    static func caFile(in folder: URL) -> String {
        folder.appending(path: SavedCredentials.authorityFile).path(percentEncoded: false)
    }

    private func path(_ name: String) -> String {
        self.folder.appending(path: name).path(percentEncoded: false)
    }

    /// Writes the files, over those of an earlier simulator.
    ///
    /// - Throws: `UsageError`, before anything is written, if a file of these names belongs to something else.
    func write() throws {
        try self.check()
        do {
            try FileManager.default.createDirectory(at: self.folder, withIntermediateDirectories: true)
        } catch {
            let path = self.folder.path(percentEncoded: false)
            // A URL of a folder ends with a slash, which no file has.
            let name = path.hasSuffix("/") ? String(path.dropLast()) : path
            throw UsageError(
                Files.exists(name)
                    ? "--write-credentials: '\(name)' is a file, not a folder. Give a folder."
                    : "--write-credentials: the folder '\(name)' cannot be made. Check that this user may write to the "
                        + "folder above it."
            )
        }
        try Self.write(self.simulator.certificateAuthorityPEM, to: self.caFile)
        let authorityKey = self.path(SavedCredentials.authorityKeyFile)
        try Self.write(self.simulator.certificateAuthorityKeyPEM, to: authorityKey, mode: 0o600)
        var lines = ["APNS_ENDPOINT=\(self.endpoint)", "APNS_CA_FILE=\(Self.quoted(self.caFile))"]
        if let key {
            let keyFile = self.path(SavedCredentials.keyFile(key.keyID))
            try Self.write(key.p8, to: keyFile, mode: 0o600)
            // Each process would sign a token of its own, and the simulator rejects the second one of a key.
            lines.append("APNS_TOKEN_FILE=\(Self.quoted(self.path(SavedCredentials.tokenFile)))")
            lines.append("APNS_KEY_FILE=\(Self.quoted(keyFile))")
            lines.append("APNS_KEY_ID=\(key.keyID)")
            lines.append("APNS_TEAM_ID=\(key.teamID)")
        }
        lines.append("APNS_TOPIC=com.example.app")
        try Self.write(lines.joined(separator: "\n") + "\n", to: self.environmentFile)
    }

    /// The folder belongs to a simulator if its `apns.env` was written by one and has the key of the simulator's certificate
    /// authority beside it. Otherwise no file is overwritten: `apns.env` may be that of a server of the user's own.
    private func check() throws {
        func check(_ path: String, _ purpose: String, isOurs: ([UInt8]) -> Bool) throws {
            try Files.checkedOutput(path, option: "--write-credentials", purpose: purpose, isOurs: isOurs)
        }
        let keyFile = SavedCredentials.authorityKeyFile
        let hasKey = Files.exists(self.path(keyFile))
        try check(self.environmentFile, "the variables of `apns simulator`, whose \(keyFile) would be beside it") {
            hasKey && SavedCredentials.isEnvironment($0)
        }
        let isSimulators = Files.exists(self.environmentFile)
        var names = [SavedCredentials.authorityFile, keyFile]
        if let key { names.append(SavedCredentials.keyFile(key.keyID)) }
        let purpose = "those of `apns simulator`, whose apns.env would be beside it"
        for name in names { try check(self.path(name), purpose) { _ in isSimulators } }
    }

    /// The beginning of a command that sends with curl: what every request needs.
    var curl: String {
        let header = self.key != nil ? " -H \"authorization: bearer $(apns provider-token)\"" : ""
        return "curl --http2 --cacert \(Self.quoted(self.caFile))\(header)"
    }

    /// How to send a push from a shell.
    var commands: [(title: String, command: String)] {
        [
            (
                "In another terminal",
                """
                set -a; . \(Self.quoted(self.environmentFile)); set +a
                apns send --title Hello \(Self.exampleToken)
                """
            ),
            (
                "Or with curl",
                """
                \(self.curl) -H "apns-topic: com.example.app" \\
                  -H "apns-push-type: alert" -d '{"aps":{"alert":"Hello"}}' \\
                  \(self.endpoint)/3/device/\(Self.exampleToken)
                """
            ),
        ]
    }

    var explanation: String {
        let commands = self.commands.map { title, command in
            let lines = command.split(separator: "\n").map { "  \($0)" }
            return "\(title):\n\(lines.joined(separator: "\n"))"
        }
        return """
            A simulator of APNs at \(self.endpoint)

            \(commands.joined(separator: "\n\n"))

            Press Ctrl-C to stop it.
            """
    }

    private static func write(_ text: String, to path: String, mode: UInt32 = 0o644) throws {
        switch Files.create(path, mode: .init(mode)) {
        case .failure(let error):
            throw UsageError("--write-credentials: '\(path)' cannot be written: \(error)")
        case .success(let descriptor):
            defer { SystemFile.close(descriptor) }
            if let error = SystemFile.write(Array(text.utf8), to: descriptor) {
                throw InputOutputError(description: "'\(path)' cannot be written: \(error)")
            }
        }
    }

    /// Quotes text for a shell. Plain paths stay unquoted, so that other readers of these files understand them.
    private static func quoted(_ text: String) -> String {
        let isPlain = text.utf8.allSatisfy { byte in
            byte > 0x7F || "/._-+:@%,".utf8.contains(byte) || (0x30...0x39).contains(byte)
                || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
        }
        return isPlain ? text : "'" + text.replacing("'", with: "'\\''") + "'"
    }
}
