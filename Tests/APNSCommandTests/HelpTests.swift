import APNSPool
import ArgumentParser
import Foundation
import Testing

@testable import APNSCommand

/// The tool's help and its error messages.
struct HelpTests {
    static let commands: [[String]: any ParsableCommand.Type] = [
        []: APNSTool.self, ["send"]: SendCommand.self, ["bulk"]: BulkCommand.self,
        ["broadcast"]: BroadcastCommand.self, ["channels"]: ChannelsCommand.self,
        ["channels", "list"]: ListChannels.self, ["channels", "create"]: CreateChannel.self,
        ["channels", "show"]: ShowChannel.self, ["channels", "delete"]: DeleteChannel.self,
        ["doctor"]: DoctorCommand.self, ["provider-token"]: ProviderTokenCommand.self,
        ["simulator"]: SimulatorCommand.self, ["demo"]: DemoCommand.self,
    ]

    private static func words(_ text: String) -> String { text.split { $0.isWhitespace }.joined(separator: " ") }

    @Test(
        "Each command's help has examples and fits into 80 columns without breaking words",
        arguments: commands.keys
    )
    func helpHasExamplesAndFits(command: [String]) async throws {
        let result = try await Tool.help(of: command)
        #expect(result.status == 0)
        let lines = result.output.split(separator: "\n")
        for line in lines { #expect(line.count <= 80, "\(line)") }
        let configuration = try #require(Self.commands[command]).configuration
        let words = Self.words(result.output)
        #expect(words.contains(Self.words(configuration.abstract)))
        if configuration.discussion.isEmpty { return }
        #expect(words.contains(Self.words(configuration.discussion)))
        #expect(lines.count { $0.contains("  apns ") || $0.contains("$(apns ") || $0.contains("  curl ") } >= 2)
        // A lost line end leaves blanks in the middle of a line.
        for line in configuration.discussion.split(separator: "\n") where !line.contains(/^  [0-9]+ +/) {
            #expect(!line.contains(/\S {2,}\S/), "\(line)")
        }
    }

    @Test("The help lists exit statuses in numeric order", arguments: commands.keys)
    func exitStatusesAreInOrder(command: [String]) async throws {
        let help = try await Tool.help(of: command)
        let numbers = help.lines.compactMap { $0.firstMatch(of: /^  ([0-9]+) +[a-zA-Z]/).flatMap { Int($0.output.1) } }
        #expect(numbers == numbers.sorted())
        if [["bulk"], ["channels"], ["doctor"]].contains(command) { #expect(numbers.count >= 5) }
    }

    @Test(
        "The error message of a command ends with its usage",
        arguments: [
            (["send", "--title", "Hey", "00"], "apns send"),
            (["bulk", "--tokens", "/nowhere", "--payload", "/nowhere", "--results", "-"], "apns bulk"),
            (["broadcast", "--channel", "dHN0LXNyY2gtY2hubA==", "--payload", "/nowhere"], "apns broadcast"),
            (["channels", "list"], "apns channels list"), (["channels", "show", "AAAA"], "apns channels show"),
        ]
    )
    func errorsEndWithTheUsage(arguments: [String], command: String) async throws {
        let result = try await Tool.run(arguments + ["--endpoint", "https://localhost:1"])
        #expect(result.status == 64)
        let lines = result.error.split(separator: "\n").map(String.init)
        #expect(lines.first?.hasPrefix("Error: Missing --topic") == true, "\(result.error)")
        #expect(lines.contains { $0.hasPrefix("Usage: \(command) ") }, "\(result.error)")
        #expect(lines.last == "  See '\(command) --help' for more information.")
    }

    @Test("Messages say standard input, not '-'") func standardInputIsNamed() async throws {
        let options = ["--endpoint", "https://localhost:1", "--topic", "com.example.app"]
        let payload = try await Tool.run(["send", "--payload", "-", "00"] + options, input: "[1]")
        #expect(payload.status == 64)
        #expect(payload.error.contains("--payload: standard input holds no JSON object"), "\(payload.error)")
        let large = String(repeating: " ", count: 1024 * 1024 + 1)
        let size = try await Tool.run(["send", "--payload", "-", "00"] + options, input: large)
        #expect(size.error.contains("--payload: standard input has more than"), "\(size.error)")
        for result in [payload, size] { #expect(!result.error.contains("'-'")) }
    }

    /// Files with one fault each, by the options that name them.
    private static let wrongFiles: [(options: [String], files: [String: String])] = [
        (["--key", "AuthKey_9UC9ZLQ8YW.p8", "--team-id", "ABBM6U9RM5"], ["AuthKey_9UC9ZLQ8YW.p8": "no key"]),
        (["--key", "nowhere.p8", "--team-id", "ABBM6U9RM5"], [:]),
        (["--key", "AuthKey_9UC9ZLQ8YW.p8", "--team-id", "short"], ["AuthKey_9UC9ZLQ8YW.p8": "no key"]),
        (["--certificate", "c.p12"], ["c.p12": "a PEM text"]), (["--certificate", "c.pem"], ["c.pem": "no PEM text"]),
        (["--certificate", "c.pem", "--certificate-key", "nowhere"], ["c.pem": "no PEM text"]),
        (["--ca-file", "nowhere.pem"], [:]), (["--ca-file", "ca.pem"], ["ca.pem": "no certificate"]),
    ]

    @Test(
        "The message about a wrong file names its option, and no functions or properties",
        arguments: 0..<wrongFiles.count
    )
    func messagesNameOptions(number: Int) async throws {
        let (options, files) = Self.wrongFiles[number]
        let folder = try Folder()
        for (name, text) in files { _ = try folder.write(text, to: name) }
        let isFile = ["--key", "--certificate", "--certificate-key", "--ca-file"]
        let paths = options.enumerated().map { index, text in
            index > 0 && isFile.contains(options[index - 1]) ? folder.path(text) : text
        }
        let endpoint = ["--endpoint", "https://127.0.0.1:1", "--topic", "com.example.app"]
        let sent = try await Tool.run(["send", "--title", "Hey", "00"] + paths + endpoint)
        #expect(sent.status == 78)
        #expect(options.contains { $0.hasPrefix("--") && sent.error.hasPrefix("apns: \($0): ") }, "\(sent.error)")
        let examined = try await Tool.run(["doctor"] + paths + endpoint)
        #expect(examined.status == 78 || examined.status == 69, "\(examined.output)")
        #expect(examined.output.contains("FAILED"))
        let properties = /(authentication|trust|tls|pool|environment|timeouts)\.[a-z]|caFile|keyFile|pkcs12File/
        for text in [sent.error, examined.output] {
            let plain = text.replacing(folder.url.path, with: "")
            #expect(!plain.contains(/[a-z][A-Za-z]*\((\)|[a-zA-Z]+:)/), "\(text)")
            #expect(!plain.contains(properties), "\(text)")
        }
        // The advice names an option too.
        #expect(examined.output.contains("trust roots") == (options[0] == "--ca-file"), "\(examined.output)")
        if options[0] == "--ca-file" { #expect(examined.output.contains("--ca-file"), "\(examined.output)") }
    }
}
