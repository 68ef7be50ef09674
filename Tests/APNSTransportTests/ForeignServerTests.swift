import TestSupport
import Testing

@testable import APNSTransport

/// The client against servers that share no code with it.
struct ForeignServerTests {
    @Suite(.enabled(if: ForeignServer.isInstalled("nghttpd"), "nghttpd is not installed"))
    struct Nghttpd {
        @Test func responsesMayArriveBeforeTheBodyIsComplete() async throws {
            let server = try await ForeignServer.start("nghttpd", files: ["file.txt": { _ in "hello" }]) { port, _ in
                ["-a", "127.0.0.1", "--htdocs=.", "--early-response", "\(port)", "key.pem", "cert.pem"]
            }
            defer { server.stop() }
            let probe = ConnectionProbe(foreign: server)
            #expect(await probe.open() == .ready(maxConcurrentStreams: 100))
            let small = await probe.send(Array(repeating: "x", count: 40), path: "/file.txt")
            #expect(small.allSatisfy { $0.ending == .response && $0.status == 200 })
            #expect(small.allSatisfy { String(decoding: $0.body, as: UTF8.self) == "hello" })
            let big = String(repeating: "x", count: 300_000)
            for _ in 0..<3 {
                let results = await probe.send(Array(repeating: big, count: 40), path: "/missing")
                #expect(results.allSatisfy { $0.ending == .response && $0.status == 404 && !$0.body.isEmpty })
            }
            #expect(await probe.closeError == nil)
            await probe.expectFewGlitches()
            await probe.close()
        }
    }

    @Suite(.enabled(if: ForeignServer.isInstalled("nginx"), "nginx is not installed"))
    struct Nginx {
        static func start(http2: Bool) async throws -> ForeignServer {
            try await ForeignServer.start(
                "nginx",
                files: [
                    "nginx.conf": { port in
                        """
                        daemon off; master_process off; pid nginx.pid; error_log error.log;
                        events { worker_connections 64; }
                        http {
                          access_log off;
                          client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u;
                          scgi_temp_path s; client_max_body_size 100k;
                          server {
                            listen 127.0.0.1:\(port) ssl\(http2 ? " http2" : "");
                            ssl_certificate cert.pem; ssl_certificate_key key.pem;
                            location /ok { return 200 "fine"; }
                            location / { return 410 "gone"; }
                          }
                        }
                        """
                    }
                ]
            ) { _, directory in ["-p", directory, "-c", "nginx.conf", "-e", "stderr"] }
        }

        @Test func requestsReceiveResponses() async throws {
            let server = try await Self.start(http2: true)
            defer { server.stop() }
            let probe = ConnectionProbe(foreign: server)
            #expect(await probe.open() == .ready(maxConcurrentStreams: 128))
            let fine = await probe.send(Array(repeating: "body", count: 100), path: "/ok")
            #expect(fine.allSatisfy { $0.status == 200 && String(decoding: $0.body, as: UTF8.self) == "fine" })
            let gone = await probe.send(Array(repeating: String(repeating: "x", count: 50_000), count: 20), path: "/x")
            #expect(gone.allSatisfy { $0.ending == .response && $0.status == 410 })
            let large = await probe.send([String(repeating: "x", count: 400_000)], path: "/x")
            #expect(large.allSatisfy { $0.ending == .response && [410, 413].contains($0.status) })
            await probe.expectFewGlitches()
            await probe.close()
        }

        @Test func aServerWithoutHTTP2IsAConfigurationError() async throws {
            let server = try await Self.start(http2: false)
            defer { server.stop() }
            #expect(await ConnectionProbe(foreign: server).open() == .closed(.noHTTP2))
        }
    }

    @Suite(.enabled(if: ForeignServer.isInstalled("node"), "node is not installed"))
    struct Node {
        static let script = #"""
            const http2 = require('http2'), fs = require('fs');
            const server = http2.createSecureServer({
              key: fs.readFileSync('key.pem'), cert: fs.readFileSync('cert.pem'),
              settings: { maxConcurrentStreams: 50 } });
            server.on('sessionError', () => {});
            server.on('stream', (stream, headers) => {
              const path = headers[':path'], session = stream.session;
              stream.on('error', () => {});
              const answer = (text) => { stream.respond({ ':status': 200, 'x-path': path }); stream.end(text); };
              if (path === '/trailers') {
                stream.respond({ ':status': 200 }, { waitForTrailers: true });
                stream.on('wantTrailers', () => stream.sendTrailers({ 'x-end': '1' }));
                stream.end('with trailers');
              } else if (path === '/informational') {
                stream.additionalHeaders({ ':status': 103, link: 'x' });
                stream.additionalHeaders({ ':status': 100 });
                answer('late');
              } else if (path === '/split') {
                stream.respond({ ':status': 400 });
                stream.write('{"rea'); setImmediate(() => { stream.write('son":'); setImmediate(() => stream.end('"X"}')); });
              } else if (path === '/goaway') {
                session.goaway(0, stream.id, Buffer.from('{"reason":"Shutdown"}'));
                answer('last');
              } else if (path === '/refused') { stream.close(http2.constants.NGHTTP2_REFUSED_STREAM);
              } else if (path === '/cancelled') { stream.close(http2.constants.NGHTTP2_CANCEL);
              } else if (path === '/destroy') { session.destroy();
              } else if (path === '/cut') { stream.respond({ ':status': 200 }); stream.write('half', () => stream.close(2));
              } else if (path.startsWith('/limit/')) {
                session.settings({ maxConcurrentStreams: Number(path.slice(7)) }, () => answer('set'));
              } else answer('ok');
            });
            server.listen(Number(process.argv[2]), '127.0.0.1');
            """#

        static func start() async throws -> ForeignServer {
            try await ForeignServer.start("node", files: ["server.js": { _ in Self.script }]) { port, _ in
                ["server.js", "\(port)"]
            }
        }

        @Test func responsesOfEveryKind() async throws {
            let server = try await Self.start()
            defer { server.stop() }
            let probe = ConnectionProbe(foreign: server)
            #expect(await probe.open() == .ready(maxConcurrentStreams: 50))
            func one(_ path: String) async -> StreamResult? { await probe.send(["{}"], path: path).first }

            let plain = await one("/plain")
            #expect(plain?.status == 200)
            #expect(plain?.fields.first("x-path") == "/plain")
            let trailers = await one("/trailers")
            #expect(trailers.map { String(decoding: $0.body, as: UTF8.self) } == "with trailers")
            #expect(trailers?.fields.first("x-end") == nil)
            let informational = await one("/informational")
            #expect(informational?.status == 200)
            #expect(informational?.fields.first("link") == nil)
            let split = await one("/split")
            #expect(split.map { String(decoding: $0.body, as: UTF8.self) } == #"{"reason":"X"}"#)
            #expect(await one("/refused")?.ending == .notProcessed)
            #expect(await one("/cancelled")?.ending == .unknown)
            let cut = await one("/cut")
            #expect(cut?.ending == .response)
            #expect(cut?.status == 200)

            _ = await one("/limit/2")
            #expect(await probe.limits.last == 2)
            let five = await probe.send(Array(repeating: "{}", count: 5), path: "/plain")
            #expect(five.filter { $0.ending == .response }.count == 2)
            #expect(five.filter { $0.ending == .notSent && $0.cause == .noCapacity }.count == 3)
            _ = await one("/limit/80")
            let many = await probe.send(Array(repeating: "{}", count: 80), path: "/plain")
            #expect(many.allSatisfy { $0.ending == .response })

            await probe.expectFewGlitches()
            let last = await one("/goaway")
            #expect(last?.ending == .response)
            let error = await probe.closed()
            #expect(error.code == .goAway)
            #expect(error.message.contains("Shutdown"))
        }

        @Test func aDestroyedSocketLeavesTheOutcomeUnknown() async throws {
            let server = try await Self.start()
            defer { server.stop() }
            let probe = ConnectionProbe(foreign: server)
            _ = await probe.open()
            let results = await probe.send(["{}"], path: "/destroy")
            #expect(results.map(\.ending) == [.unknown])
            _ = await probe.closed()
        }
    }
}

extension ConnectionProbe {
    /// Expects that the server is far from the limit: it used 21 to 53 glitches when this was measured.
    func expectFewGlitches(at location: SourceLocation = #_sourceLocation) {
        let lowest = self.connection?.session?.glitches.lowest ?? 0
        #expect(lowest >= GlitchBudget.capacity - 500, sourceLocation: location)
    }

    init(foreign server: ForeignServer, host: String = "localhost") {
        var tls = TLSConfiguration()
        tls.caPEM = server.caPEM
        self.init(host: host, port: server.port, tls: tls)
    }
}
