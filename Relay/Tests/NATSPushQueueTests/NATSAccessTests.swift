#if NATS
    import APNSModel
    import Foundation
    import JournalPushQueue
    import NATSPushQueue
    import NATSTestServer
    import PushQueue
    import Testing

    /// TLS and passwords.
    @Suite(.timeLimit(.minutes(1))) struct NATSAccessTests {
        private let files: CopyFiles

        init() throws { self.files = try CopyFiles() }

        @Test("A broker with TLS is trusted by its certificate, and gets the relay's")
        func tls() async throws {
            let certificate = try Certificate()
            let server = try NATSServer([
                "--tlsverify", "--tlscert", certificate.certificate, "--tlskey", certificate.key, "--tlscacert",
                certificate.certificate,
            ])
            let tls = NATSOptions.TLS(
                caFile: certificate.certificate,
                certificateFile: certificate.certificate,
                keyFile: certificate.key,
                expectedHost: "127.0.0.1"
            )
            let queue = try await NATSPushQueue.open(NATSOptions(servers: [server.url], tls: tls), self.files)
            try await queue.setValue([1], forKey: "a")
            await queue.close()
            let noCertificate = NATSOptions.TLS(caFile: certificate.certificate, expectedHost: "127.0.0.1")
            let otherHost = NATSOptions.TLS(
                caFile: certificate.certificate,
                certificateFile: certificate.certificate,
                keyFile: certificate.key,
                expectedHost: "broker.example.com"
            )
            for wrong in [noCertificate, otherHost, NATSOptions.TLS(), nil] {
                let error = await #expect(throws: QueueError.self) {
                    _ = try await NATSPushQueue.open(NATSOptions(servers: [server.url], tls: wrong), self.files)
                }
                #expect(error?.code == .unavailable)
            }
            let missing = await #expect(throws: QueueError.self) {
                let tls = NATSOptions.TLS(caFile: "/nonexistent.pem")
                _ = try await NATSPushQueue.open(NATSOptions(servers: [server.url], tls: tls), self.files)
            }
            #expect(missing?.code == .unusable)
            #expect(missing?.message.contains("/nonexistent.pem") == true)
        }

        @Test("A relay needs no more permissions than Fleet.md lists")
        func permissions() async throws {
            let file = try ConfigurationFile(
                #"""
                authorization {
                  users = [{
                    user: relay, password: secret, permissions: {
                      publish: ["APNS_RELAY.>", "$JS.API.>", "$JS.FC.>"], subscribe: ["_INBOX.>"]
                    }
                  }]
                }
                """#
            )
            let server = try NATSServer(["-c", file.path])
            let url = server.url.replacing("nats://", with: "nats://relay:secret@")
            let options = NATSOptions(servers: [url], maximumBytes: 400_000)
            let queue = try await NATSPushQueue.open(options, self.files)
            // More than the stream: snapshots are stored, and entries are deleted.
            for number in 0..<60 {
                while (try? await queue.setValue(Array(repeating: UInt8(number), count: 10_000), forKey: "a")) == nil {}
            }
            let reader = try await NATSPushQueue.open(options, self.files)
            let value = try await reader.value(forKey: "a")
            #expect(value?.first == 59)
            await queue.close()
            await reader.close()
            let outcomes = NATSOutcomeStream(options, maximumAge: .seconds(60))
            let end = try await outcomes.end()
            let isStored = try await outcomes.append(
                [OutcomeMessage(cursor: 1, app: "fern", kind: "accepted", body: Array("{}".utf8))],
                after: end.sequence
            )
            #expect(isStored)
            await outcomes.close()
        }

        @Test("A password in the address opens the broker")
        func password() async throws {
            let server = try NATSServer(["--user", "relay", "--pass", "secret"])
            let url = server.url.replacing("nats://", with: "nats://relay:secret@")
            let queue = try await NATSPushQueue.open(NATSOptions(servers: [url]), self.files)
            await queue.close()
            let error = await #expect(throws: QueueError.self) {
                _ = try await NATSPushQueue.open(NATSOptions(servers: [server.url]), self.files)
            }
            #expect(error?.code == .unavailable)
        }
    }

    /// A file for a broker's settings.
    private final class ConfigurationFile {
        let path = FileManager.default.temporaryDirectory.appending(path: "nats-\(APNSID.random()).conf").path

        init(_ text: String) throws { try text.write(toFile: self.path, atomically: true, encoding: .utf8) }

        deinit { try? FileManager.default.removeItem(atPath: self.path) }
    }

    /// A new certificate for 127.0.0.1 that is its own authority, in files.
    private final class Certificate {
        private let directory: URL
        var certificate: String { self.directory.appending(path: "certificate.pem").path }
        var key: String { self.directory.appending(path: "key.pem").path }

        init() throws {
            self.directory = FileManager.default.temporaryDirectory.appending(path: "nats-tls-\(APNSID.random())")
            try FileManager.default.createDirectory(at: self.directory, withIntermediateDirectories: true)
            let process = Process()
            process.executableURL = URL(fileURLWithPath: "/usr/bin/openssl")
            process.arguments = [
                "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1,DNS:127.0.0.1",
                "-keyout", self.key, "-out", self.certificate,
            ]
            process.standardError = FileHandle.nullDevice
            try process.run()
            process.waitUntilExit()
        }

        deinit { try? FileManager.default.removeItem(at: self.directory) }
    }
#endif
