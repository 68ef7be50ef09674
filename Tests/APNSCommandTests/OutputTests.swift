import APNSPool
import APNSSimulator
import Foundation
import TestSupport
import Testing

@testable import APNSCommand

/// No option that writes destroys a file of the user.
struct OutputTests {
    private static let list = (1...3).map { token($0) + "\n" }.joined()

    /// A path to `file` of another kind, in the folder.
    private enum Alias: String, CaseIterable {
        case same, symbolicLink, hardLink, dots
    }

    private static func path(_ alias: Alias, to file: String, in folder: Folder) throws -> String {
        let link = folder.path("alias")
        try? FileManager.default.removeItem(atPath: link)
        switch alias {
        case .same: return file
        case .symbolicLink:
            try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: file)
            return link
        case .hardLink:
            try FileManager.default.linkItem(atPath: file, toPath: link)
            return link
        case .dots:
            return folder.url.path + "/./" + (file as NSString).lastPathComponent
        }
    }

    private static func contents(_ path: String) throws -> String { try String(contentsOfFile: path, encoding: .utf8) }

    // MARK: - apns bulk

    @Test("Results that are an input are refused before anything is written", arguments: [true, false])
    func resultsThatAreAnInput(isDryRun: Bool) async throws {
        try await Server.with { server in
            for option in ["--tokens", "--payload", "--key", "--ca-file"] {
                for alias in Alias.allCases {
                    var arguments = try BulkTests.arguments(server, Self.list) + (isDryRun ? ["--dry-run"] : [])
                    let input = arguments[try #require(arguments.firstIndex(of: option)) + 1]
                    let before = try Self.contents(input)
                    arguments[6] = try Self.path(alias, to: input, in: server.folder)
                    let result = try await Tool.run(arguments)
                    #expect(result.status == 64, "\(option) \(alias): \(result.error)")
                    #expect(result.error.contains("--results"), "\(result.error)")
                    #expect(try Self.contents(input) == before, "\(option) \(alias)")
                }
            }
            #expect(server.simulator.record.requestsReceived == 0)
        }
    }

    @Test("An input that is empty, a row, or one of the files beside the results, is not overwritten either")
    func inputsBesideTheResults() async throws {
        try await Server.with { server in
            let arguments = try BulkTests.arguments(server, Self.list)
            let results = server.folder.path("results.ndjson")
            for suffix in ["", ".new", ".run", ".run.new"] {
                var changed = arguments
                changed[2] = try server.folder.write("", to: "results.ndjson" + suffix)
                let result = try await Tool.run(changed)
                #expect(result.status == 64 && result.error.contains("of --tokens"), "\(suffix): \(result.error)")
                #expect(FileManager.default.fileExists(atPath: changed[2]))
                try FileManager.default.removeItem(atPath: changed[2])
                #expect(!FileManager.default.fileExists(atPath: results))
            }
            // A shell has opened the list as standard input.
            var piped = arguments
            piped[2] = "-"
            let same = try await Tool.run(piped + ["--token-file", results])
            #expect(same.status == 64 && same.error.contains("--token-file"), "\(same.error)")
            #expect(server.simulator.record.requestsReceived == 0)
        }
    }

    @Test("Files with other contents in the place of results, or beside them, are refused")
    func foreignFilesInThePlaceOfResults() async throws {
        try await Server.with { server in
            let arguments = try BulkTests.arguments(server, Self.list)
            for name in ["results.ndjson", "results.ndjson.new", "results.ndjson.run", "results.ndjson.run.new"] {
                let path = try server.folder.write("my notes\n", to: name)
                let result = try await Tool.run(arguments)
                #expect(result.status == 64 && result.error.contains("'\(path)'"), "\(name): \(result.error)")
                #expect(try Self.contents(path) == "my notes\n")
                try FileManager.default.removeItem(atPath: path)
            }
            #expect(server.simulator.record.requestsReceived == 0)
        }
    }

    @Test("A list of devices as JSON objects is not taken for results")
    func foreignObjects() async throws {
        try await Server.with { server in
            let arguments = try BulkTests.arguments(server, Self.list)
            for row in [
                #"{"token":"\#(token(1))","values":{"name":"Ann"}}"#,
                #"{"token": "\#(token(1))","outcome":"accepted"}"#, #"{"token":17}"#,
            ] {
                let path = try server.folder.write(row + "\n", to: "results.ndjson")
                let result = try await Tool.run(arguments)
                #expect(result.status == 64 && result.error.contains("not rows of `apns bulk`"), "\(result.error)")
                #expect(try Self.contents(path) == row + "\n")
            }
            #expect(server.simulator.record.requestsReceived == 0)
        }
        // Rows, and the beginning of one.
        for text in [#"{"token":"a\"b","outcome":"accepted","#, #"{"token":"a\""#, #"{"token":"a","out"#, #"{"to"#] {
            #expect(RowScan.isBeginning(Array(text.utf8)), "\(text)")
        }
    }

    @Test("Results behind a symbolic link are written there, and the link stays")
    func resultsBehindALink() async throws {
        try await Server.with { server in
            let link = server.folder.path("link")
            let target = server.folder.path("target.ndjson")
            // There is no target yet.
            try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: "target.ndjson")
            var arguments = try BulkTests.arguments(server, Self.list)
            arguments[6] = link
            // Without its roots, the tool distrusts the server and sends nothing.
            var distrusting = arguments
            let index = try #require(distrusting.firstIndex(of: "--ca-file"))
            distrusting.removeSubrange(index...index + 1)
            #expect(try await Tool.run(distrusting).status != 0)
            #expect(!server.folder.lines(of: "target.ndjson").isEmpty)
            // The resumed run replaces the file, since rows are superseded.
            #expect(try await Tool.run(arguments + ["--resume"]).status == 0)
            #expect(try FileManager.default.destinationOfSymbolicLink(atPath: link) == "target.ndjson")
            #expect(try ResultLine.all(server.folder.lines(of: "target.ndjson")).map(\.line).sorted() == [1, 2, 3])
            #expect(FileManager.default.fileExists(atPath: target + ".run"))
        }
    }

    // MARK: - The token file

    @Test("A token file with other contents or of another kind is refused, and stays as it is")
    func foreignTokenFile() async throws {
        let folder = try Folder()
        let key = SimulatedKey()
        let keyFile = try folder.write(key.p8, to: key.fileName)
        let list = try folder.write(Self.list, to: "list.txt")
        let link = folder.path("link")
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: list)
        let pipe = folder.path("pipe")
        #expect(mkfifo(pipe, 0o600) == 0)
        // A token of another service.
        let foreign = try folder.write("eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.e30.c2ln\n", to: "service.jwt")
        for path in [list, link, pipe, keyFile, folder.url.path, foreign] {
            let result = try await Tool.run(
                ["provider-token", "--key", keyFile, "--team-id", key.teamID, "--token-file", path]
            )
            #expect(result.status == 64 && result.output.isEmpty, "\(path): \(result.output)")
            #expect(result.error.contains("--token-file") && result.error.contains("of its own"), "\(result.error)")
            let variable = try await Tool.run(
                ["doctor", "--endpoint", "https://localhost:1", "--key", keyFile, "--team-id", key.teamID],
                environment: ["APNS_TOKEN_FILE": path]
            )
            #expect(variable.status == 64 && variable.output.contains("Change APNS_TOKEN_FILE"), "\(variable.output)")
        }
        #expect(try Self.contents(list) == Self.list)
        #expect(try Self.contents(keyFile) == key.p8)
        var status = stat()
        #expect(stat(pipe, &status) == 0 && status.st_mode & S_IFMT == S_IFIFO)
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: link) == list)
    }

    @Test("A token file behind a symbolic link is written there; a foreign copy beside it stays")
    func linkedTokenFile() async throws {
        let folder = try Folder()
        let key = SimulatedKey()
        let keyFile = try folder.write(key.p8, to: key.fileName)
        let link = folder.path("link")
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: "token")
        let arguments = ["provider-token", "--key", keyFile, "--team-id", key.teamID, "--token-file", link]
        let first = try await Tool.run(arguments)
        #expect(first.status == 0, "\(first.error)")
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: link) == "token")
        #expect(folder.lines(of: "token").first.map { $0 + "\n" } == first.output)
        try FileManager.default.removeItem(atPath: folder.path("token"))
        let notes = try folder.write("my notes\n", to: "token.new")
        #expect(try await Tool.run(arguments).status == 0)
        #expect(try Self.contents(notes) == "my notes\n")
    }

    // MARK: - apns simulator

    @Test("The simulator does not overwrite files that no simulator has written", arguments: ["apns.env", "ca.pem"])
    func foreignCredentials(name: String) async throws {
        let folder = try Folder()
        let text = "APNS_ENDPOINT=https://api.push.apple.com\nAPNS_KEY_FILE=/etc/AuthKey.p8\n"
        let file = try folder.write(text, to: name)
        let result = try await Tool.run(["simulator", "--port", "0", "--write-credentials", folder.url.path])
        #expect(result.status == 64, "\(result.error)")
        #expect(result.error.contains("--write-credentials: '\(file)'"), "\(result.error)")
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.url.path) == [name])
        #expect(try Self.contents(file) == text)
    }

    @Test("The environment of another server is not overwritten, even if it looks like that of a simulator")
    func environmentOfAnotherServer() async throws {
        let folder = try Folder()
        let text = "APNS_ENDPOINT=https://push.example.com\nAPNS_CA_FILE=/etc/fern/ca.pem\nAPNS_TOPIC=com.example.app\n"
        let file = try folder.write(text, to: "apns.env")
        let roots = try folder.write("my roots\n", to: "ca.pem")
        for more in ["", "APNS_POOL_SIZE=3\n"] {
            if !more.isEmpty { _ = try folder.write("a simulator's", to: "simulator-ca-key.pem") }
            _ = try folder.write(text + more, to: "apns.env")
            let result = try await Tool.run(["simulator", "--port", "0", "--write-credentials", folder.url.path])
            #expect(result.status == 64 && result.error.contains("'\(file)'"), "\(result.error)")
            #expect(try Self.contents(file) == text + more)
        }
        #expect(try Self.contents(roots) == "my roots\n")
    }

    @Test("A file in the place of the folder of credentials is named")
    func fileInsteadOfAFolder() async throws {
        let folder = try Folder()
        let file = try folder.write("my notes\n", to: "notes")
        let result = try await Tool.run(["simulator", "--port", "0", "--write-credentials", file])
        #expect(result.status == 64 && result.error.contains("'\(file)' is a file, not a folder"), "\(result.error)")
        #expect(try Self.contents(file) == "my notes\n")
    }

    @Test("A ledger does not replace the credentials that the same simulator writes")
    func ledgerInThePlaceOfCredentials() async throws {
        for name in ["apns.env", "ca.pem", "simulator-ca-key.pem", "provider-token"] {
            let folder = try Folder()
            let result = try await Tool.run([
                "simulator", "--port", "0", "--write-credentials", folder.url.path, "--ledger", folder.path(name),
            ])
            #expect(result.status == 64 && result.error.contains("of --write-credentials"), "\(name): \(result.error)")
            #expect(try FileManager.default.contentsOfDirectory(atPath: folder.url.path).isEmpty)
        }
    }

    @Test("A ledger in the place of another file is refused")
    func foreignLedger() async throws {
        let folder = try Folder()
        let script = try folder.write(#"{"faults":[]}"#, to: "faults.json")
        let notes = try folder.write("my notes\n", to: "notes")
        _ = try folder.write("my notes\n", to: "free.new")
        let pipe = folder.path("pipe")
        #expect(mkfifo(pipe, 0o600) == 0)
        for path in [script, notes, folder.path("free"), pipe] {
            let result = try await Tool.run(["simulator", "--port", "0", "--faults", script, "--ledger", path])
            #expect(result.status == 64 && result.error.contains("--ledger: '"), "\(path): \(result.error)")
        }
        #expect(try Self.contents(script) == #"{"faults":[]}"#)
        #expect(try Self.contents(notes) == "my notes\n")
        #expect(folder.lines(of: "free.new") == ["my notes"])
    }
}
