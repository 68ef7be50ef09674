import NIOCore
import Testing

@testable import APNSTransport

/// The states of a connection, and which error explains its end.
struct ConnectionLifeMachineTests {
    private let lost = WireError(.connectionReset, "reset")

    private func ready() -> ConnectionLife {
        var life = ConnectionLife()
        life.began(deadline: .uptimeNanoseconds(1))
        _ = life.receivedSettings()
        return life
    }

    @Test("The first SETTINGS make a connection ready; later ones change its limit") func settings() {
        var life = ConnectionLife()
        life.began(deadline: .uptimeNanoseconds(1))
        #expect(life.connectDeadline == .uptimeNanoseconds(1) && !life.isOpen)
        #expect(life.receivedSettings() == .ready)
        #expect(life.connectDeadline == .distantFuture && life.isOpen)
        #expect(life.receivedSettings() == .changed)
        life.drain()
        #expect(life.receivedSettings() == .late)
        life.closed()
        #expect(life.receivedSettings() == .late)
    }

    @Test("A connection that drains ends with its last stream") func drain() {
        var life = self.ready()
        #expect(life.endOfDrain(openStreams: 0) == nil)
        life.drain()
        #expect(life.endOfDrain(openStreams: 1) == nil)
        #expect(life.endOfDrain(openStreams: 0)?.code == .closedLocally)
        life.closed()
        #expect(life.endOfDrain(openStreams: 0) == nil)
    }

    @Test("The first GOAWAY is reported, and a later one adds the reason that it lacks") func goAway() {
        var life = self.ready()
        #expect(life.receivedGoAway(.noError, debugData: [])?.code == .goAway)
        #expect(life.state == .draining)
        #expect(life.receivedGoAway(.noError, debugData: Array(#"{"reason":"BadCertificate"}"#.utf8)) == nil)
        #expect(life.receivedGoAway(.noError, debugData: Array("later".utf8)) == nil)
        #expect(life.endOfDrain(openStreams: 0)?.code == .clientCertificateRefused)
        #expect(life.explanation(self.lost).message.contains("BadCertificate"))
    }

    @Test("The first error explains the end, except for a flood") func explanation() {
        var life = self.ready()
        #expect(life.explanation(self.lost) == self.lost)
        _ = life.receivedGoAway(.noError, debugData: [])
        #expect(life.explanation(self.lost).code == .goAway)
        #expect(life.failed(WireError(.pingTimeout, "lost")))
        #expect(life.failed(self.lost))
        #expect(life.explanation(self.lost).code == .pingTimeout)
        #expect(life.explanation(WireError(.flooded, "flood")).code == .flooded)
        life.closed()
        #expect(!life.failed(self.lost))
    }

    @Test("A GOAWAY before the SETTINGS explains why there was no connection") func goAwayWhileConnecting() {
        var life = ConnectionLife()
        #expect(life.receivedGoAway(.enhanceYourCalm, debugData: [])?.code == .goAway)
        #expect(life.state == .connecting)
        _ = life.failed(self.lost)
        #expect(life.explanation(self.lost).code == .goAway)
    }
}
