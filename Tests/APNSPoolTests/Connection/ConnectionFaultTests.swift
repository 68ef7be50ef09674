import HTTP2Wire
import Testing

@testable import APNSPool

struct ConnectionFaultTests {
    @Test(
        "An error of a connection says whether another connect makes sense, and when",
        arguments: [
            (WireError.Code.connectRefused, ConnectionFault.network), (.goAway, .network), (.closedByPeer, .network),
            (.pingTimeout, .lostPath), (.invariantBroken, .brokenInvariant),
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

    @Test("A refused certificate is a fault of the configuration once the credential's machine says so")
    func refusedCertificate() {
        let error = WireError(.clientCertificateRefused, "a test")
        #expect(ConnectionFault(error) { nil } == .network)
        #expect(ConnectionFault(error) { .seconds(7) } == .configuration(holdOff: .seconds(7)))
    }
}
