import APNSTransport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

struct ConnectionFaultTests {
    @Test(
        "A connection error determines whether and when to connect again",
        arguments: [
            (WireError.Code.connectRefused, ConnectionFault.network), (.goAway, .network), (.closedByPeer, .network),
            (.pingTimeout, .lostPath), (.flooded, .network), (.protocolViolation, .network),
            (.hostNotFound, .configuration(holdOff: .zero)), (.certificateExpired, .configuration(holdOff: .zero)),
        ]
    )
    func codes(_ code: WireError.Code, _ fault: ConnectionFault) {
        let read = ConnectionFault(WireError(code, "a test")) {
            Issue.record("no certificate was refused")
            return nil
        }
        #expect(read == fault)
        #expect(read.isConfiguration == (fault == .configuration(holdOff: .zero)))
    }

    @Test("A refused certificate is a configuration fault only if the credential machine gives a hold-off")
    func refusedCertificate() {
        let error = WireError(.clientCertificateRefused, "a test")
        #expect(ConnectionFault(error) { nil } == .network)
        #expect(ConnectionFault(error) { .seconds(7) } == .configuration(holdOff: .seconds(7)))
    }
}
