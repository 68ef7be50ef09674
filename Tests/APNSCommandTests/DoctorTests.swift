import APNSModel
import APNSSimulator
import Foundation
import TestSupport
import Testing

/// `apns doctor` on set-ups with one fault each.
struct DoctorTests {
    private struct Report: Decodable {
        struct Step: Decodable {
            var name: String
            var state: String
            var found: [String]
            var advice: String?
        }
        struct Setting: Decodable {
            var option: String
            var value: String
            var origin: String
        }
        var isOK: Bool
        var exitStatus: Int32
        var settings: [Setting]
        var steps: [Step]

        func step(_ name: String) -> Step? { self.steps.first { $0.name == name } }
        var failed: [Step] { self.steps.filter { $0.state == "failed" } }
    }

    /// The tool's report, which must agree with its exit status.
    private func examine(_ options: [String], _ variables: [String: String] = [:]) async throws -> (Report, Int32) {
        let result = try await Tool.run(["doctor", "--json"] + options, environment: variables)
        let report = try JSONDecoder().decode(Report.self, from: Data(result.output.utf8))
        #expect(report.exitStatus == result.status)
        #expect(report.isOK == (result.status == 0))
        // Each failure gives advice.
        for step in report.failed { #expect(step.advice?.isEmpty == false, "\(step.name)") }
        return (report, result.status)
    }

    private func replacing(_ option: String, _ value: String?, in options: [String]) throws -> [String] {
        var options = options
        let index = try #require(options.firstIndex(of: option))
        if let value { options[index + 1] = value } else { options.removeSubrange(index...index + 1) }
        return options
    }

    @Test func aWorkingSetupPassesAllSteps() async throws {
        try await Server.with { server in
            let key = try #require(server.options.firstIndex(of: "--key")) + 1
            chmod(server.options[key], 0o600)
            let (report, status) = try await self.examine(server.options, ["APNS_POOL_SIZE": "2"])
            #expect(status == 0, "\(report)")
            #expect(report.steps.allSatisfy { $0.state == "ok" }, "\(report.steps)")
            let names = ["libraries", "settings", "credential", "name", "TCP", "TLS", "HTTP/2", "clock"]
            #expect(Array(report.steps.map(\.name).prefix(8)) == names)
            let libraries = try #require(report.step("libraries")).found
            #expect(libraries.contains { $0.hasPrefix("OpenSSL 3.") })
            #expect(libraries.contains { $0.wholeMatch(of: /nghttp2 1\.\d+\.\d+/) != nil })
            #expect(libraries.contains { $0.contains("backport") })
            #expect(report.steps.last?.name == "topic")
            let size = try #require(report.settings.first { $0.option == "--pool-size" })
            #expect(size.value == "2" && size.origin == "APNS_POOL_SIZE")
            #expect(report.settings.first { $0.option == "--topic" }?.origin == "command line")
            #expect(report.step("TLS")?.found.contains { $0.contains("days left") } == true)
            #expect(report.step("credential")?.found.contains { $0.contains("all keys of team") } == true)
            // The doctor sends one push, for a device that does not exist.
            #expect(server.simulator.record.requestsProcessed == 1)
            let plain = try await Tool.run(["doctor"] + server.options)
            #expect(plain.status == 0)
            #expect(plain.lines.last == "All is well.")
            chmod(server.options[key], 0o644)
            let open = try await Tool.run(["doctor"] + server.options)
            #expect(open.status == 0)
            #expect(open.output.contains("-> Other users of this machine may read the file: chmod 600"))
            #expect(open.lines.last == "It works. Warnings: 1.")
        }
    }

    @Test func anInvalidKeyFileFailsTheCredential() async throws {
        try await Server.with { server in
            let file = try server.folder.write("no key", to: "AuthKey_9UC9ZLQ8YW.p8")
            let (report, status) = try await self.examine(try self.replacing("--key", file, in: server.options))
            #expect(status == 78)
            #expect(report.failed.map(\.name) == ["credential"])
            // The network is checked nevertheless.
            #expect(report.step("TLS")?.state == "ok")
            #expect(report.step("push")?.state == "skipped")
            let missing = try self.replacing("--key", "/nowhere/AuthKey_9UC9ZLQ8YW.p8", in: server.options)
            #expect(try await self.examine(missing).0.failed.first?.found.first?.contains("no file") == true)
        }
    }

    @Test func swappedIDsFailTheCredential() async throws {
        try await Server.with({ $0.credential = .keys([]) }) { server in
            let key = SimulatedKey()
            server.simulator.addKey(key)
            // The file's name does not contain the key ID, so only APNs can detect the fault.
            let file = try server.folder.write(key.p8, to: "key.p8")
            var options = try self.replacing("--key", file, in: server.options)
            options = try self.replacing("--team-id", key.keyID, in: options) + ["--key-id", key.teamID]
            let (report, status) = try await self.examine(options)
            #expect(status == 78)
            let failed = try #require(report.failed.first)
            #expect(failed.name == "credential" && failed.found.first?.contains("403") == true, "\(failed)")
            #expect(failed.advice?.contains("key ID, the team ID") == true)
            // If the file's name shows the fault, nothing is sent.
            let (named, _) = try await self.examine(server.options + ["--key-id", "ABCDE12345"])
            #expect(named.failed.map(\.name) == ["credential"])
        }
    }

    @Test func aKeyUnknownToTheServerFailsTheCredential() async throws {
        try await Server.with({ $0.credential = .keys([]) }) { server in
            let key = SimulatedKey()
            let file = try server.folder.write(key.p8, to: key.fileName)
            var options = try self.replacing("--key", file, in: server.options)
            options = try self.replacing("--team-id", key.teamID, in: options)
            let (report, status) = try await self.examine(options)
            #expect(status == 78)
            #expect(report.failed.first?.name == "credential")
            #expect(report.failed.first?.found.first?.contains("InvalidProviderToken") == true)
        }
    }

    @Test func anUntrustedAuthorityFailsTLS() async throws {
        try await Server.with { server in
            let (report, status) = try await self.examine(try self.replacing("--ca-file", nil, in: server.options))
            #expect(status == 78)
            #expect(report.failed.map(\.name) == ["TLS"])
            let step = try #require(report.step("TLS"))
            #expect(step.advice?.contains("--ca-file") == true)
            // The issuer helps more than the fact that the certificate is not trusted.
            #expect(step.found.contains { $0.contains("issued by CN=Simulated APNs Root") }, "\(step.found)")
            #expect(report.step("HTTP/2")?.state == "ok")
        }
    }

    @Test(arguments: [
        (TLSFault.Certificate.expired, "expired"), (.otherHost, "another host"), (.notYetValid, "not valid yet"),
    ])
    func invalidCertificatesFailTLS(certificate: TLSFault.Certificate, words: String) async throws {
        try await Server.with { server in
            server.simulator.inject(Fault(.certificate(certificate), when: .always))
            let (report, status) = try await self.examine(server.options)
            #expect(status == 78)
            #expect(report.failed.map(\.name) == ["TLS"])
            #expect(report.step("TLS")?.found.first?.contains(words) == true, "\(report.steps)")
        }
    }

    @Test(arguments: [TLSFault.ALPN.none, .http11])
    func aServerWithoutHTTP2IsReported(alpn: TLSFault.ALPN) async throws {
        try await Server.with { server in
            server.simulator.inject(Fault(.alpn(alpn), when: .always))
            let (report, status) = try await self.examine(server.options)
            #expect(status == 78)
            let failed = try #require(report.failed.first)
            #expect(failed.found.contains { $0.contains("h2") }, "\(failed)")
            #expect(failed.advice?.contains("This is not APNs") == true)
        }
    }

    @Test func aClosedPortFailsTCP() async throws {
        try await Server.with { server in
            await server.simulator.stopListening()
            let (report, status) = try await self.examine(server.options)
            #expect(status == 69)
            #expect(report.failed.map(\.name) == ["TCP"])
            #expect(report.step("TCP")?.found.allSatisfy { $0.contains("connection refused") } == true)
            #expect(report.steps.filter { $0.state == "skipped" }.map(\.name) == ["TLS", "HTTP/2", "clock", "push"])
        }
    }

    @Test func aPortWithoutTLSFailsTLS() async throws {
        let server = try await ForeignServer.start("python3", files: [:]) { port, folder in
            ["-m", "http.server", "--bind", "127.0.0.1", "--directory", folder, "\(port)"]
        }
        defer { server.stop() }
        let (report, status) = try await self.examine(["--endpoint", "https://127.0.0.1:\(server.port)"])
        #expect(status == 78)
        #expect(report.failed.map(\.name) == ["TLS"])
    }

    @Test func anUnknownHostFailsTheName() async throws {
        let (report, status) = try await self.examine(["--endpoint", "https://apns.invalid:443"])
        #expect(status == 69)
        #expect(report.failed.map(\.name) == ["name"])
        #expect(report.failed.first?.advice?.contains("DNS") == true)
    }

    @Test func aTopicOfAnotherTeamFailsTheTopic() async throws {
        try await Server.with { server in
            server.simulator.setTopics(["com.example.other"])
            let (report, status) = try await self.examine(server.options)
            #expect(status == 78)
            #expect(report.failed.map(\.name) == ["topic"], "\(report.steps)")
            #expect(report.step("credential")?.state != "failed")
        }
    }

    @Test(arguments: [(Int64(7200), "2 h"), (-7200, "2 h")])
    func aWrongClockFailsTheClock(offset: Int64, words: String) async throws {
        try await Server.with { server in
            server.simulator.setClockOffset(seconds: offset)
            let (report, status) = try await self.examine(server.options)
            #expect(status == 78)
            let clock = try #require(report.step("clock"))
            #expect(clock.state == "failed" && clock.found.first?.contains(words) == true, "\(clock)")
            #expect(clock.found.first?.contains(offset > 0 ? "behind" : "ahead") == true)
            // The wrong clock makes APNs reject the provider token.
            #expect(report.failed.last?.found.first?.contains("403") == true, "\(report.failed)")
        }
    }

    @Test func anOverloadedServerFailsTheResponse() async throws {
        try await Server.with { server in
            server.simulator.inject(Fault(.respond(.serviceUnavailable), when: .always))
            let (report, status) = try await self.examine(server.options)
            // The clock step passes, since a 503 has a date too.
            #expect(report.failed.map(\.name) == ["response"], "\(report.steps)")
            #expect(status == 75)
        }
    }

    @Test func aMissingTopicAndKeyAreWarnings() async throws {
        try await Server.with({ $0.credential = .none }) { server in
            let options = ["--endpoint", "https://localhost:\(server.simulator.port)"]
            let trust = try self.replacing("--key", nil, in: server.options)
            let ca = try #require(trust.firstIndex(of: "--ca-file"))
            let (report, status) = try await self.examine(options + trust[ca...ca + 1])
            #expect(status == 0)
            #expect(report.steps.filter { $0.state == "warning" }.map(\.name) == ["credential", "push"])
        }
    }

    @Test(.enabled(if: ForeignServer.isInstalled("tinyproxy"), "tinyproxy is not installed"))
    func proxiesAreChecked() async throws {
        let proxy = try await ForeignServer.start(
            "tinyproxy",
            files: ["tinyproxy.conf": { "Port \($0)\nListen 127.0.0.1\nTimeout 60\nBasicAuth fern s3cret\n" }],
            arguments: { ["-d", "-c", "\($1)/tinyproxy.conf"] }
        )
        defer { proxy.stop() }
        try await Server.with { server in
            let good = try await self.examine(
                server.options + ["--proxy", "http://fern:s3cret@127.0.0.1:\(proxy.port)"]
            )
            #expect(good.1 == 0, "\(good.0)")
            #expect(good.0.step("proxy")?.found.first?.contains("opened a tunnel to localhost") == true)
            let wrong = try await Tool.run(
                ["doctor", "--json", "--proxy", "http://fern:wr0ng@127.0.0.1:\(proxy.port)"] + server.options
            )
            #expect(wrong.status == 69)
            #expect(!wrong.output.contains("wr0ng"))
            let report = try JSONDecoder().decode(Report.self, from: Data(wrong.output.utf8))
            #expect(report.failed.map(\.name) == ["proxy"])
        }
    }
}
