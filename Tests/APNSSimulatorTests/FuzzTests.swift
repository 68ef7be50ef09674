import Foundation
import NIOCore
import TestSupport
import Testing

@testable import APNSSimulator
@testable import APNSTransport

/// Bytes that a fuzzer chooses, instead of those of a client or of a fault script.
struct FuzzTests {
    @Test("Whatever a client sends after TLS, the session responds to its requests or ends")
    func fuzzSimulatorSession() throws {
        try Fuzz.run("simulator-session") { bytes in
            var configuration = HTTP2ServerSession.Configuration()
            configuration.maxConcurrentStreams = 16
            configuration.reportsRequestsEarly = bytes.first.map { $0 & 1 == 1 } ?? false
            let session = try HTTP2ServerSession(configuration: configuration)
            let rules = APNSRules()
            let verifier = ProviderTokenVerifier(acceptsUnknownKeys: true, keys: [:])
            let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + [0, 0, 0, 4, 0, 0, 0, 0, 0]
            for piece in [preface[...], bytes.dropFirst()] {
                do {
                    try Self.receive(Array(piece), session, rules, verifier)
                } catch is WireError {
                    break
                }
            }
            session.concludeAll(cause: .connectionLost)
        }
    }

    private static func receive(
        _ bytes: [UInt8],
        _ session: HTTP2ServerSession,
        _ rules: APNSRules,
        _ verifier: ProviderTokenVerifier
    ) throws {
        var fault: WireError?
        bytes.withUnsafeBytes {
            do throws(WireError) { try session.receive($0, now: .now()) } catch { fault = error }
        }
        if let fault { throw fault }
        let requests = session.requests
        session.requests.removeAll()
        for request in requests {
            let verdict = RequestView.with(request.fields) { view in
                if let token = view.authorization { _ = verifier.inspect(token) }
                return rules.verdict(on: view, bodyCount: request.body.count, credentialFault: nil)
            }
            try session.respond(streamID: request.streamID, status: verdict.status, fields: FieldList(), body: [])
        }
        // At most about a frame for each frame received, which has nine bytes or more, and two for each response.
        var frames = 0
        while try !session.nextFrame().isEmpty {
            frames += 1
            #expect(frames <= 64 + bytes.count, "the session writes without end")
            if frames > 64 + bytes.count { return }
        }
    }

    @Test("A fault script is read or refused, and is the same after it was written and read again")
    func fuzzFaultScript() throws {
        try Fuzz.run("fault-script") { bytes in
            guard let script = try? FaultScript(json: bytes) else { return }
            let again = try JSONDecoder().decode(FaultScript.self, from: JSONEncoder().encode(script))
            #expect(again == script)
        }
    }
}
