import APNSModel
import Foundation
import APNSTransport
import TestSupport
import Testing

@testable import APNSSimulator

private let hasCurl = Command.path(of: "curl") != nil
private let hasNode = Command.path(of: "node") != nil
private let hasH2load = Command.path(of: "h2load") != nil

/// Faults, with clients of other projects.
struct ForeignFaultTests {
    private func start(_ faults: [Fault]) async throws -> Simulator {
        var configuration = Simulator.Configuration()
        configuration.credential = .none
        configuration.faults = FaultScript(faults)
        return try await Simulator.start(configuration)
    }

    /// `curl`'s exit status and output.
    private func curl(_ simulator: Simulator, _ arguments: String...) async throws -> CommandResult {
        let folder = try TemporaryFolder()
        return try await Command.run(
            "curl",
            [
                "--silent", "--show-error", "--http2", "--max-time", "\(Patience.seconds)", "--include",
                "--cacert", try folder.write("ca.pem", simulator.certificateAuthorityPEM),
                "--header", "apns-topic: \(Sample.topic)", "--header", "apns-push-type: alert",
                "--data", Sample.payload,
            ] + arguments + ["https://localhost:\(simulator.port)/3/device/\(Sample.deviceToken)"]
        )
    }

    @Test(
        .enabled(if: hasCurl, "curl is not installed"),
        arguments: [
            (Fault(.certificate(.expired)), [60], "expired"),
            (Fault(.certificate(.notYetValid)), [60], "not yet valid"),
            (Fault(.certificate(.otherHost)), [60], "match"), (Fault(.certificate(.untrusted)), [60], "issuer"),
            (Fault(.handshakeAlert(40)), [35], "handshake failure"), (Fault(.handshakeAlert(48)), [35], "unknown ca"),
            (Fault(.clientCertificate(.expired)), [55, 56], "certificate required"),
            (Fault(.reset(code: 8)), [92], "CANCEL"), (Fault(.dropConnection(.rst)), [55, 56], "reset"),
            (Fault(.neverSpeak()), [28], "timed out"),
        ] as [(Fault, [Int32], String)]
    )
    func curlReportsTheFault(fault: Fault, statuses: [Int32], text: String) async throws {
        let simulator = try await self.start([fault])
        // curl gives up early only if the fault is that no response comes.
        let result = try await self.curl(simulator, "--max-time", "\(statuses == [28] ? 1 : Patience.seconds)")
        // A reset fails the next operation: 55 is sending, 56 is reading.
        #expect(statuses.contains(result.status), "\(result.output)")
        #expect(result.output.contains(text), "\(result.output)")
        // The next request succeeds.
        let next = try await self.curl(simulator)
        #expect(next.status == 0 && next.output.hasPrefix("HTTP/2 200"), "\(next.output)")
        await simulator.stop()
    }

    @Test(.enabled(if: hasCurl, "curl is not installed"))
    func curlAcceptsUnusualResponses() async throws {
        let response = ScriptedResponse(.badTopic).with {
            $0.informational = [103]
            $0.trailers = ["x-end": "here"]
            $0.headers = ["retry-after": "7"]
        }
        let simulator = try await self.start([
            Fault(.pingFlood(20)), Fault(.settings(.headerTableSize(0))),
            Fault(.settings(HTTP2Setting(identifier: 0xFAFA, value: 1))), Fault(.respond(response)),
        ])
        let result = try await self.curl(simulator)
        #expect(result.status == 0, "\(result.output)")
        #expect(result.output.hasPrefix("HTTP/2 103") && result.output.contains("HTTP/2 400"), "\(result.output)")
        for text in ["retry-after: 7", "x-end: here", #"{"reason":"BadTopic"}"#] {
            #expect(result.output.contains(text), "\(result.output)")
        }
        // `date` has the form of RFC 9110 and is at most ten seconds old.
        let line = try #require(result.output.split(whereSeparator: \.isNewline).first { $0.hasPrefix("date: ") })
        let date = String(line.dropFirst(6))
        #expect([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10].contains { HTTPDate.text(Sample.now - $0) == date }, "\(date)")
        await simulator.stop()
    }

    private func node(_ simulator: Simulator, _ script: String) async throws -> CommandResult {
        let folder = try TemporaryFolder()
        let ca = try folder.write("ca.pem", simulator.certificateAuthorityPEM)
        let program = """
            const http2 = require('http2'), fs = require('fs');
            const client = http2.connect('https://localhost:\(simulator.port)', {ca: fs.readFileSync('\(ca)')});
            const log = (...words) => console.log(words.join(' '));
            client.on('error', e => log('session-error', e.code));
            client.on('goaway', (code, last, data) => log('goaway', code, last, data ? data.toString() : ''));
            client.on('remoteSettings', s => log('settings', s.maxConcurrentStreams));
            client.on('close', () => { log('closed'); process.exit(0); });
            setTimeout(() => { log('timeout'); process.exit(0); }, \(Patience.seconds)000);
            function push(name) {
              const stream = client.request({':method': 'POST', ':path': '/3/device/\(Sample.deviceToken)',
                'apns-topic': '\(Sample.topic)', 'apns-push-type': 'alert'});
              let body = '';
              stream.on('headers', h => log(name, 'info', h[':status']));
              stream.on('response', h => log(name, 'status', h[':status']));
              stream.on('trailers', h => log(name, 'trailers', h['x-end']));
              stream.on('data', d => { body += d; });
              stream.on('end', () => log(name, 'end', body));
              stream.on('error', e => log(name, 'error', e.code));
              stream.on('close', () => log(name, 'close', stream.rstCode));
              stream.end('\(Sample.payload)');
              return stream;
            }
            \(script)
            """
        return try await Command.run("node", [try folder.write("client.js", program)])
    }

    @Test(.enabled(if: hasNode, "node is not installed"))
    func nodeReportsFailedStreams() async throws {
        let response = ScriptedResponse(.badTopic)
        let simulator = try await self.start([
            Fault(.refuse), Fault(.cutBody(response, after: 5, code: 8)),
            Fault(.respond(response.with { $0.informational = [103] })),
            Fault(.respond(response.with { $0.trailers = ["x-end": "here"] })),
        ])
        let script = """
            let names = ['a', 'b', 'c', 'd'];
            function next() {
              const name = names.shift();
              if (!name) { client.close(); return; }
              push(name).on('close', () => setImmediate(next));
            }
            next();
            """
        let output = try await self.node(simulator, script).output
        for line in [
            "a close 7", "b status 400", "b close 8", "c info 103", "c end {\"reason\":\"BadTopic\"}",
            "d trailers here",
            "d close 0",
        ] {
            #expect(output.contains(line), "\(output)")
        }
        #expect(simulator.record.requestsProcessed == 0 && simulator.record.streamsRefused == 1)
        await simulator.stop()
    }

    @Test(.enabled(if: hasNode, "node is not installed"))
    func nodeReportsEndedConnections() async throws {
        let simulator = try await self.start([
            Fault(.settings(maxConcurrentStreams: 3)),
            Fault(.goAway(.afterThisRequest, reason: "Shutdown"), when: .next),
        ])
        let output = try await self.node(simulator, "push('a');").output
        #expect(output.contains("settings 3"), "\(output)")
        #expect(output.contains(#"goaway 0 1 {"reason":"Shutdown"}"#), "\(output)")
        #expect(output.contains("a status 200") && output.contains("closed"), "\(output)")
        await simulator.stop()
    }

    @Test(.enabled(if: hasH2load, "h2load (package nghttp2-client) is not installed"))
    func h2loadCountsAShareOf503() async throws {
        let simulator = try await self.start([.share(0.1, of: .serviceUnavailable)])
        let folder = try TemporaryFolder()
        let result = try await Command.run(
            "h2load",
            [
                "-n", "5000", "-c", "4", "-m", "50", "-d", try folder.write("payload", Sample.payload),
                "-H", "apns-topic: \(Sample.topic)", "-H", "apns-push-type: alert",
                "https://localhost:\(simulator.port)/3/device/\(Sample.deviceToken)",
            ]
        )
        let ledger = simulator.record
        #expect((400...600).contains(ledger.responses[503] ?? 0))
        let line = "status codes: \(ledger.requestsProcessed) 2xx, 0 3xx, 0 4xx, \(ledger.responses[503] ?? 0) 5xx"
        #expect(result.output.contains(line), "\(result.output)")
        await simulator.stop()
    }
}
