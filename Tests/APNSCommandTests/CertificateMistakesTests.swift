import APNSPool
import APNSSimulator
import Foundation
import Testing

@testable import APNSCommand

/// What `apns` says about mistakes with client certificates.
struct CertificateMistakesTests {
    private static func start() async throws -> Simulator {
        var configuration = Simulator.Configuration()
        configuration.credential = .clientCertificate
        return try await Simulator.start(configuration)
    }

    private static func withSimulator(_ body: (Simulator, Folder, [String]) async throws -> Void) async throws {
        let simulator = try await self.start()
        let folder = try Folder()
        let ca = try folder.write(simulator.certificateAuthorityPEM, to: "roots.pem")
        do {
            try await body(simulator, folder, ["--endpoint", "https://localhost:\(simulator.port)", "--ca-file", ca])
        } catch {
            await simulator.stop()
            throw error
        }
        await simulator.stop()
    }

    @Test("Each error names the option that is missing, and none advises a key for provider tokens")
    func errorsNameTheOption() async throws {
        try await Self.withSimulator { simulator, folder, options in
            let made = try simulator.makeClientCertificate()
            let other = try simulator.makeClientCertificate()
            let certificate = try folder.write(made.certificatePEM, to: "apns.cer")
            let key = try folder.write(made.privateKeyPEM, to: "key.pem")
            let otherKey = try folder.write(other.privateKeyPEM, to: "other.pem")
            let p12 = folder.path("apns.p12")
            try Data(try made.pkcs12(passphrase: "secret")).write(to: URL(fileURLWithPath: p12))
            let renamed = folder.path("apns.der")
            try FileManager.default.copyItem(atPath: p12, toPath: renamed)
            let wrong = try folder.write("wrong\n", to: "password")
            let empty = try folder.write("\n", to: "empty")
            let unreadable = folder.path("utf16")
            try #require("secret".data(using: .utf16LittleEndian)).write(to: URL(fileURLWithPath: unreadable))
            let request = "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"
            let pem = try folder.write(made.certificatePEM + made.privateKeyPEM, to: "pem.p12")
            let cases: [(arguments: [String], words: [String])] = [
                (["--certificate", p12], ["no passphrase was given", "--certificate-password-file"]),
                (["--certificate", p12, "--certificate-password-file", wrong], ["passphrase is wrong"]),
                (["--certificate", certificate], ["not its private key", "--certificate-key"]),
                (["--certificate", key], ["It is a private key", "--certificate-key"]),
                (
                    ["--certificate", certificate, "--certificate-key", otherKey],
                    ["does not belong", "--certificate-key"]
                ),
                (
                    ["--certificate", certificate, "--certificate-key", certificate],
                    ["no readable private key: it is a certificate"]
                ),
                (
                    ["--certificate", certificate, "--certificate-key", p12],
                    ["no readable private key: it is a PKCS#12 file"]
                ),
                (["--certificate", p12, "--certificate-password-file", empty], ["or an empty one"]),
                (["--certificate", pem], ["PEM form, not a PKCS#12 file"]),
                (
                    ["--certificate", try folder.write(request, to: "fern.csr"), "--certificate-key", key],
                    ["is a certificate request", "developer portal"]
                ),
                (["--certificate", renamed], [".p12"]),
                (
                    ["--certificate", try folder.write("hello", to: "x.p12")],
                    ["not a PKCS#12 file", "does not end in .p12"]
                ),
            ]
            for (arguments, words) in cases {
                let all = options + arguments + ["--topic", "com.example.app"]
                let doctor = try await Tool.run(["doctor"] + all)
                #expect(doctor.status == 78, "\(arguments): \(doctor.output)")
                let sent = try await Tool.run(["send", "--title", "Hey"] + all + [token(1)])
                #expect(sent.status == 78, "\(arguments): \(sent.output)")
                for text in [doctor.output, sent.error] {
                    for word in words { #expect(text.contains(word), "\(arguments): \(text)") }
                    #expect(!text.contains(".p8"), "\(text)")
                    #expect(!text.contains("--key ") && !text.contains("authentication."), "\(text)")
                }
                #expect(doctor.output.contains("-> ") && doctor.output.contains("--certificate"), "\(doctor.output)")
            }
            let named = try await Tool.run(
                ["doctor", "--certificate", p12, "--certificate-password-file", unreadable] + options
            )
            #expect(named.status == 64 && named.error.contains("UTF-16"), "\(named.error)")
        }
    }

    @Test("A PKCS#12 file without its key: the advice can be followed")
    func keylessPKCS12() async throws {
        let keyless = try #require(Doctor.certificateAdvice(for: .notAKey, isPKCS12: true))
        #expect(keyless.contains("Export") && keyless.contains("PEM"))
        try await Self.withSimulator { simulator, folder, options in
            let made = try simulator.makeClientCertificate()
            let file = folder.path("apns.p12")
            try Data(try made.pkcs12(passphrase: "")).write(to: URL(fileURLWithPath: file))
            let key = try folder.write(made.privateKeyPEM, to: "key.pem")
            let both = try await Tool.run(["doctor", "--certificate", file, "--certificate-key", key] + options)
            #expect(both.status == 64 && both.error.contains("openssl pkcs12 -in \(file) -nokeys"), "\(both.error)")
        }
    }

    @Test("A byte order mark in the password's file is skipped, and a root in DER form is read")
    func filesOfOtherPrograms() async throws {
        try await Self.withSimulator { simulator, folder, options in
            let made = try simulator.makeClientCertificate()
            let file = folder.path("apns.p12")
            try Data(try made.pkcs12(passphrase: "secret")).write(to: URL(fileURLWithPath: file))
            let password = try folder.write("\u{FEFF}secret\r\n", to: "password")
            let roots = folder.path("roots.cer")
            let body = simulator.certificateAuthorityPEM.split(separator: "\n").dropFirst().dropLast().joined()
            try #require(Data(base64Encoded: body)).write(to: URL(fileURLWithPath: roots))
            let sent = try await Tool.run([
                "send", "--title", "Hey", "--endpoint", options[1], "--ca-file", roots, "--topic", "com.example.app",
                "--certificate", file, "--certificate-password-file", password, token(1),
            ])
            #expect(sent.status == 0, "\(sent.output)\(sent.error)")
        }
    }

    @Test(
        "The doctor's advice about a certificate names its options",
        arguments: [
            APNSConfigurationError.Code.notACertificate, .notAKey, .keyEncrypted, .passphraseWrong, .encryptionTooOld,
            .keyMismatch, .certificateExpired,
        ]
    )
    func advice(code: APNSConfigurationError.Code) throws {
        let advice = try #require(Doctor.certificateAdvice(for: code))
        #expect(advice.contains("--certificate") && !advice.contains(".p8"))
    }

    @Test("A topic that the certificate is not for fails before a push is tried")
    func otherTopic() async throws {
        try await Self.withSimulator { simulator, folder, options in
            let made = try simulator.makeClientCertificate(topics: ["com.example.app", "com.example.app.voip"])
            let file = try folder.write(made.certificatePEM + made.privateKeyPEM, to: "apns.pem")
            chmod(file, 0o600)
            let all = options + ["--certificate", file, "--topic"]
            let good = try await Tool.run(["doctor"] + all + ["com.example.app"])
            #expect(good.status == 0 && good.lines.last == "All is well.", "\(good.output)")
            let other = try await Tool.run(["doctor"] + all + ["com.example.other"])
            #expect(other.status == 78, "\(other.output)")
            #expect(other.output.contains("not for com.example.other, but for com.example.app, com.example.app.voip"))
            #expect(other.lines.last == "It does not work: topic.")
            #expect(simulator.record.requestsReceived <= 2)
        }
    }

    @Test("Live Activities and broadcasts with a certificate are warned about")
    func liveActivities() async throws {
        try await Self.withSimulator { simulator, folder, options in
            let made = try simulator.makeClientCertificate()
            let file = try folder.write(made.certificatePEM + made.privateKeyPEM, to: "apns.pem")
            let all = options + ["--certificate", file, "--topic", "com.example.app"]
            let payload = #"{"aps":{"timestamp":1,"event":"update","content-state":{}}}"#
            let sent = try await Tool.run(
                ["send", "--push-type", "liveactivity", "--payload", "-"] + all + [token(1)],
                input: payload
            )
            #expect(sent.error.contains("only with a provider token"), "\(sent.error)")
            let list = try await Tool.run(["channels", "list"] + all)
            #expect(list.error.contains("only with a provider token"), "\(list.error)")
            let topic = "com.example.app.push-type.liveactivity"
            let doctor = try await Tool.run(["doctor"] + all.dropLast() + [topic])
            #expect(doctor.output.contains("only with a provider token"), "\(doctor.output)")
            #expect(doctor.status == 0 && doctor.lines.last?.hasPrefix("It works.") == true, "\(doctor.output)")
            let plain = try await Tool.run(["send", "--title", "Hey"] + all + [token(1)])
            #expect(!plain.error.contains("warning"), "\(plain.error)")
        }
    }
}
