import APNSModel
import APNSSimulator
import Foundation
import TestSupport
import Testing

@testable import APNSCommand

/// What `apns` says about mistakes with times, payloads, tokens, topics and networks.
struct InputMistakesTests {
    private static let now: Int64 = 1_800_000_000

    private func refusal(_ text: String) -> String {
        do {
            _ = try HeaderValues(priority: nil, expiration: text, now: Self.now)
            return ""
        } catch {
            return "\(error)"
        }
    }

    // MARK: - Times

    @Test("An expiration in the past or in milliseconds is refused with the value that was meant")
    func expirations() {
        for text in ["0", "+0", "+3600", "1800000000", "1800003600", "+2592000", "99999999999"] {
            #expect(self.refusal(text) == "", "\(text)")
        }
        #expect(self.refusal("3600").contains("in the past") && self.refusal("3600").contains("Give +3600"))
        #expect(self.refusal("1799999999").contains("a time in the future"))
        #expect(self.refusal("1800003600000").contains("milliseconds"))
        #expect(self.refusal("1800003600000").contains("1800003600."))
        #expect(self.refusal("99999999999000").contains("milliseconds"))
        #expect(self.refusal("+1799999999").contains("Leave out the '+'"))
        #expect(self.refusal("99999999999001000").contains("too far"))
        #expect(self.refusal("+99999999999").contains("Leave out the '+'"))
        #expect(self.refusal("9223372036854775807").contains("too far"))
        #expect(self.refusal("+9223372036854775807").contains("too far"))
        for text in ["-1", "1h", "tomorrow", ""] { #expect(self.refusal(text).contains("neither"), "\(text)") }
    }

    @Test("A past expiration is refused by every command that takes one, also by --dry-run")
    func everyCommand() async throws {
        try await Server.with { server in
            let bulk = try BulkTests.arguments(server, token(1))
            for command in [
                ["send", "--title", "Hey"] + server.options + [token(1)], bulk, bulk + ["--dry-run"],
                ["broadcast", "--channel", "dHN0LXNyY2gtY2hubA==", "--payload", "-"] + server.options,
            ] {
                let result = try await Tool.run(command + ["--expiration", "3600"], input: "{}")
                #expect(result.status == 64 && result.error.contains("+3600"), "\(result.error)")
            }
            #expect(server.simulator.record.requestsReceived == 0)
        }
    }

    // MARK: - Files

    private static let mark = "\u{FEFF}"

    @Test("A byte order mark is skipped in every JSON file, and UTF-16 is named")
    func byteOrderMarks() async throws {
        try await Server.with { server in
            let payload = try server.folder.write(Self.mark + BulkTests.payload, to: "payload.json")
            let config = try server.folder.write(Self.mark + #"{"apns":{"pool":{"size":1}}}"#, to: "config.json")
            let sent = try await Tool.run(
                ["send", "--payload", payload, "--config", config] + server.options + [token(1)]
            )
            #expect(sent.status == 0, "\(sent.error)")
            #expect(server.simulator.record.pushes.first?.payload.first == UInt8(ascii: "{"))
            #expect(try FaultScript(json: Array((Self.mark + #"{"faults":[]}"#).utf8)).faults.isEmpty)
            for encoding in [String.Encoding.utf16, .utf16LittleEndian, .utf16BigEndian] {
                let bytes = try #require(BulkTests.payload.data(using: encoding))
                try bytes.write(to: URL(fileURLWithPath: payload))
                let refused = try await Tool.run(["send", "--payload", payload] + server.options + [token(1)])
                #expect(refused.status == 64 && refused.error.contains("UTF-16"), "\(refused.error)")
                let settings = try await Tool.run(
                    ["send", "--title", "Hey", "--config", payload] + server.options + [token(1)]
                )
                #expect(settings.status == 64 && settings.error.contains("UTF-16"), "\(settings.error)")
                #expect(throws: FaultScriptError.self) { try FaultScript(json: bytes) }
            }
        }
    }

    @Test("A payload over the limit because of its blanks says how large it is without them")
    func blanks() async throws {
        let json = #"{ "a \" b" : [1 , 2],\#n"c":"\\" }"#
        #expect(Payload.sizeWithoutBlanks(Array(json.utf8)) == #"{"a \" b":[1,2],"c":"\\"}"#.utf8.count)
        try await Server.with { server in
            let blanks = String(repeating: " ", count: 5000)
            let payload = try server.folder.write(#"{"aps":{"alert":"Hello"}\#(blanks)}"#, to: "large.json")
            var bulk = try BulkTests.arguments(server, token(1))
            bulk[4] = payload
            for arguments in [bulk, ["send", "--payload", payload] + server.options + [token(1)]] {
                let result = try await Tool.run(arguments)
                #expect(result.status == 64 && result.error.contains("it has 25 bytes"), "\(result.error)")
                #expect(result.error.contains("jq -c ."))
            }
        }
    }

    @Test("A list of device tokens in UTF-16 is named")
    func listInUTF16() async throws {
        try await Server.with { server in
            let arguments = try BulkTests.arguments(server, "")
            let bytes = try #require((token(1) + "\n").data(using: .utf16LittleEndian))
            try bytes.write(to: URL(fileURLWithPath: arguments[2]))
            let result = try await Tool.run(arguments + ["--dry-run"])
            #expect(result.status == 64 && result.error.contains("--tokens") && result.error.contains("UTF-16"))
        }
    }

    @Test("A run says why it refuses lines, and an empty list is mentioned")
    func refusedLines() async throws {
        try await Server.with { server in
            let arguments = try BulkTests.arguments(server, "token,user\n\(token(1)),17\n")
            let refused = try await Tool.run(arguments)
            #expect(refused.status == 1, "\(refused.error)")
            #expect(refused.error.contains("  not-sent, deviceTokenNotHexadecimal × 2: device token: a device token "))
            let text = String(decoding: try #require((token(1) + "\n").data(using: .utf16LittleEndian)), as: UTF8.self)
            var piped = arguments
            piped[2] = "-"
            let encoded = try await Tool.run(piped, input: text)
            #expect(encoded.error.contains("which is in UTF-16"), "\(encoded.error)")
            let empty = try await Tool.run(try BulkTests.arguments(server, "\n"))
            #expect(empty.status == 0 && empty.error.contains("holds no device token"), "\(empty.error)")
        }
    }

    // MARK: - Tokens and keys

    @Test("A device token in base64 is named with the remedy")
    func base64Token() throws {
        let bytes = (0..<32).map { UInt8($0 * 7 & 0xFF) }
        let error = #expect(throws: ValidationError.self) { try DeviceToken(Data(bytes).base64EncodedString()) }
        #expect(error?.description.contains("base64: decode it") == true, "\(error?.description ?? "")")
        for (text, word) in [
            ("{length = 32, bytes = 0x740f4707 bebcf74f ... 61bb78ad }", "Data"), ("7\0004\000", "UTF-16"),
            ("fGx9:APA91bHun4MxP5egoKMwt2KZFBaFUH", "Firebase"),
        ] {
            let error = #expect(throws: ValidationError.self) { try DeviceToken(text) }
            #expect(error?.description.contains(word) == true, "\(error?.description ?? "")")
        }
        // A mistyped digit is not base64.
        let mistyped = #expect(throws: ValidationError.self) {
            try DeviceToken(String(repeating: "ab", count: 31) + "ag")
        }
        #expect(mistyped?.description.contains("base64") == false)
    }

    @Test("A path in the place of a key is named, and a key in the place of a path is never shown")
    func swappedKeys() async throws {
        let path = try await Tool.run(
            ["provider-token", "--team-id", "ABCDE12345", "--key-id", "ABCDE12345"],
            environment: ["APNS_PRIVATE_KEY": "/etc/fern/AuthKey_ABCDE12345.p8"]
        )
        #expect(path.status == 78 && path.error.contains("path of a file"), "\(path.error)")
        #expect(path.error.contains("--key"), "\(path.error)")
        let secret = try await Tool.run(
            ["provider-token", "--team-id", "ABCDE12345", "--key-id", "ABCDE12345"],
            environment: ["APNS_PRIVATE_KEY": "/run/secrets/apns_key"]
        )
        #expect(secret.error.contains("path of a file"), "\(secret.error)")
        let key = SimulatedKey()
        for arguments in [["--key", key.p8], ["--key=" + key.p8]] {
            let shown = try await Tool.run(["provider-token", "--team-id", "ABCDE12345"] + arguments)
            #expect(shown.status == 64 && shown.error.contains("--key: it is the text of a"), "\(shown.error)")
            #expect(!shown.error.contains("MIG") && !shown.output.contains("MIG"))
        }
        let certificate = try await Tool.run(
            ["doctor", "--endpoint", "https://localhost:1"],
            environment: ["APNS_CERTIFICATE_FILE": key.p8]
        )
        #expect(certificate.error.contains("belongs to 'APNS_CERTIFICATE_KEY'"), "\(certificate.error)")
        for text in [key.p8, key.p8.replacing("\n", with: "\\n"), key.p8.replacing("\n", with: " ")] {
            let text = try await Tool.run(
                ["provider-token", "--team-id", "ABCDE12345"],
                environment: ["APNS_KEY_FILE": text]
            )
            #expect(text.status == 64 && text.error.contains("text of a private key"), "\(text.error)")
            #expect(!text.error.contains("MIG") && text.error.contains("'APNS_PRIVATE_KEY'"), "\(text.error)")
        }
    }

    @Test("A certificate in the place of a key for provider tokens is named, also in DER form and as PKCS#12")
    func certificatesAsKeys() async throws {
        let simulator = try await Simulator.start()
        let made = try simulator.makeClientCertificate()
        await simulator.stop()
        let folder = try Folder()
        let body = made.certificatePEM.split(separator: "\n").dropFirst().dropLast().joined()
        for (bytes, word) in [
            (try #require(Data(base64Encoded: body)), "a certificate, not a key"),
            (Data(try made.pkcs12(passphrase: "secret")), "PKCS#12"),
            (Data(made.certificatePEM.utf8), "a certificate, not a key"),
        ] {
            let file = folder.path("AuthKey_ABCDE12345.p8")
            try bytes.write(to: URL(fileURLWithPath: file))
            let result = try await Tool.run(["provider-token", "--team-id", "ABBM6U9RM5", "--key", file])
            #expect(result.status == 78 && result.error.contains(word), "\(result.error)")
        }
        let key = SimulatedKey()
        let file = try folder.write(key.p8, to: key.fileName)
        let named = try await Tool.run([
            "provider-token", "--team-id", key.teamID, "--key", file, "--key-id", key.keyID.lowercased(),
        ])
        #expect(named.error.contains("Leave --key-id out"), "\(named.error)")
    }

    // MARK: - Push types and topics

    @Test("Completion, help and the page offer the push types that the library knows")
    func pushTypes() async throws {
        let known = PushType.known.map(\.rawValue)
        let script = try await Tool.run(["--generate-completion-script", "bash"]).output
        let help = try await Tool.help(of: ["send"]).output
        let page = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../Sources/CAPNSControlFiles/page/filters.js")
        let filters = try String(contentsOf: page, encoding: .utf8)
        for type in known {
            #expect(script.contains(type), "\(type)")
            #expect(help.contains(type), "\(type)")
            #expect(filters.contains("\"\(type)\""), "\(type)")
        }
    }

    @Test("Channels accept the topic of a Live Activity, and refuse one of another push type")
    func channelTopics() async throws {
        try await Server.with { server in
            var options = server.options
            let topic = try #require(options.firstIndex(of: "--topic")) + 1
            options[topic] = "com.example.app.push-type.liveactivity"
            let list = try await Tool.run(["channels", "list"] + options)
            #expect(list.status == 0, "\(list.error)")
            options[topic] = "com.example.app.push-type.widgets"
            for command in [
                ["channels", "list"], ["broadcast", "--channel", "dHN0LXNyY2gtY2hubA==", "--payload", "-"],
            ] {
                let result = try await Tool.run(command + options, input: #"{"aps":{"event":"update"}}"#)
                #expect(result.status == 64, "\(result.error)")
                #expect(result.error.contains("push type widgets") && result.error.contains("'com.example.app'"))
            }
        }
    }

    // MARK: - Networks

    @Test("The doctor mentions a proxy of the environment that is not used, without showing it")
    func unusedProxy() async throws {
        let options = ["doctor", "--endpoint", "https://apns.invalid:443"]
        for name in ["HTTPS_PROXY", "https_proxy"] {
            let result = try await Tool.run(options, environment: [name: "http://fern:s3cret@proxy:3128"])
            #expect(result.output.contains("\(name) is set, but apns does not use it"), "\(result.output)")
            #expect(!result.output.contains("s3cret"))
        }
    }

    @Test("A simulator at ::1 prints and writes an address that leads to it")
    func loopbackAddress() async throws {
        let folder = try Folder()
        let running = try Running([
            "simulator", "--listen", "::1", "--port", "0", "--write-credentials", folder.path("sim"),
        ])
        #expect(await eventually { running.output.contains("Ctrl-C") || running.isOver })
        #expect(running.output.contains("https://[::1]:"), "\(running.output)\(running.error)")
        let lines = folder.lines(of: "sim/apns.env").map { $0.split(separator: "=", maxSplits: 1).map(String.init) }
        let variables = Dictionary(uniqueKeysWithValues: lines.map { ($0[0], $0[1]) })
        let sent = try await Tool.run(["send", "--title", "Hey", token(1)], environment: variables)
        #expect(sent.status == 0, "\(sent.output)\(sent.error)")
        running.interrupt()
        _ = await running.end()
    }
}
