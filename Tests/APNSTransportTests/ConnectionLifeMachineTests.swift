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
        let first = life.receivedSettings()
        #expect(first == .ready)
        #expect(life.connectDeadline == .distantFuture && life.isOpen)
        let second = life.receivedSettings()
        #expect(second == .changed)
        life.drain()
        let whileDraining = life.receivedSettings()
        #expect(whileDraining == .late)
        life.closed()
        let atTheEnd = life.receivedSettings()
        #expect(atTheEnd == .late)
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
        let first = life.receivedGoAway(.noError, debugData: [])
        #expect(first?.code == .goAway)
        #expect(life.state == .draining)
        let second = life.receivedGoAway(.noError, debugData: Array(#"{"reason":"BadCertificate"}"#.utf8))
        let third = life.receivedGoAway(.noError, debugData: Array("later".utf8))
        #expect(second == nil && third == nil)
        #expect(life.endOfDrain(openStreams: 0)?.code == .clientCertificateRefused)
        #expect(life.explanation(self.lost).message.contains("BadCertificate"))
    }

    @Test("The first error explains the end, except for a flood") func explanation() {
        var life = self.ready()
        #expect(life.explanation(self.lost) == self.lost)
        _ = life.receivedGoAway(.noError, debugData: [])
        #expect(life.explanation(self.lost).code == .goAway)
        let isFirst = life.failed(WireError(.pingTimeout, "lost"))
        let isSecond = life.failed(self.lost)
        #expect(isFirst && isSecond)
        #expect(life.explanation(self.lost).code == .pingTimeout)
        #expect(life.explanation(WireError(.flooded, "flood")).code == .flooded)
        life.closed()
        let isLate = life.failed(self.lost)
        #expect(!isLate)
    }

    @Test("A GOAWAY before the SETTINGS explains why there was no connection") func goAwayWhileConnecting() {
        var life = ConnectionLife()
        let error = life.receivedGoAway(.enhanceYourCalm, debugData: [])
        #expect(error?.code == .goAway)
        #expect(life.state == .connecting)
        _ = life.failed(self.lost)
        #expect(life.explanation(self.lost).code == .goAway)
    }
}
