import NIOCore
import Testing

@testable import APNSRelay

struct ConnectionMachineTests {
    private static let limits = ConnectionMachine.Limits(request: .seconds(60), idle: .seconds(15), linger: .seconds(2))

    private static func at(_ seconds: Int64) -> NIODeadline { .uptimeNanoseconds(0) + .seconds(seconds) }

    private static func machine() -> ConnectionMachine { ConnectionMachine(Self.limits, now: Self.at(100)) }

    @Test("A connection without a request is closed after the idle timeout")
    func idle() {
        var machine = Self.machine()
        #expect(machine.deadline == Self.at(115))
        let timeout1 = machine.timerFired(Self.at(114))
        #expect(timeout1 == nil)
        let timeout2 = machine.timerFired(Self.at(115))
        #expect(timeout2 == .close)
    }

    @Test("A pause in a body fails the request")
    func pause() {
        var machine = Self.machine()
        machine.receivedHead(Self.at(101))
        machine.receivedBody(Self.at(110))
        #expect(machine.deadline == Self.at(125))
        let timeout3 = machine.timerFired(Self.at(125))
        #expect(timeout3 == .failRequest)
    }

    @Test("Bytes that trickle in do not extend the time for a request")
    func trickle() {
        var machine = Self.machine()
        machine.receivedHead(Self.at(101))
        for second in Int64(102)...160 { machine.receivedBody(Self.at(second)) }
        #expect(machine.deadline == Self.at(161))
        let timeout4 = machine.timerFired(Self.at(161))
        #expect(timeout4 == .failRequest)
        // If no response follows, the connection is closed.
        #expect(machine.deadline == Self.at(176))
        let timeout5 = machine.timerFired(Self.at(176))
        #expect(timeout5 == .close)
    }

    @Test("A long body may take as long as bytes arrive, and a pause counts only while the relay is ready for them")
    func longBody() {
        var machine = Self.machine()
        machine.receivedHead(Self.at(101), isLong: true)
        for second in stride(from: Int64(102), to: 1_000, by: 10) {
            machine.beginReading(Self.at(second))
            #expect(machine.timerFired(Self.at(second + 5)) == nil)
            machine.receivedBody(Self.at(second + 5))
        }
        // The relay stores what has arrived.
        #expect(machine.deadline == nil)
        machine.beginReading(Self.at(2_000))
        machine.beginReading(Self.at(2_010))
        #expect(machine.deadline == Self.at(2_015))
        #expect(machine.timerFired(Self.at(2_015)) == .failRequest)
    }

    @Test("Nothing limits the work on a request that has arrived")
    func working() {
        var machine = Self.machine()
        machine.receivedHead(Self.at(101))
        machine.receivedEnd()
        #expect(machine.deadline == nil)
        let timeout6 = machine.timerFired(Self.at(10_000))
        #expect(timeout6 == nil)
    }

    @Test("A response must be taken in time, and then the connection is idle again")
    func response() {
        var machine = Self.machine()
        machine.receivedHead(Self.at(101))
        machine.receivedEnd()
        let begins7 = machine.beginResponse(Self.at(200))
        #expect(!begins7)
        #expect(machine.deadline == Self.at(260))
        let ends8 = machine.endResponse(Self.at(200))
        #expect(!ends8)
        #expect(machine.deadline == Self.at(260))
        machine.responseWritten(Self.at(230), ends: false)
        #expect(machine.deadline == Self.at(245))
        #expect(!machine.isLingering)
    }

    @Test("A response before the end of its request ends the connection, after the rest was discarded")
    func earlyResponse() {
        var machine = Self.machine()
        machine.receivedHead(Self.at(101))
        let begins9 = machine.beginResponse(Self.at(102))
        #expect(begins9)
        let ends = machine.endResponse(Self.at(102))
        #expect(ends)
        machine.responseWritten(Self.at(103), ends: ends)
        #expect(machine.isLingering)
        #expect(machine.deadline == Self.at(105))
        let timeout10 = machine.timerFired(Self.at(105))
        #expect(timeout10 == .close)
    }

    @Test("A response to an earlier request does not end the connection while the next one arrives")
    func pipelined() {
        var machine = Self.machine()
        machine.receivedHead(Self.at(101))
        machine.receivedEnd()
        machine.receivedHead(Self.at(102))
        let begins11 = machine.beginResponse(Self.at(103))
        #expect(!begins11)
        let ends12 = machine.endResponse(Self.at(103))
        #expect(!ends12)
    }

    @Test("A response without a request ends the connection")
    func notHTTP() {
        var machine = Self.machine()
        let begins13 = machine.beginResponse(Self.at(101))
        #expect(begins13)
        let ends14 = machine.endResponse(Self.at(101))
        #expect(ends14)
    }

    @Test("A shutdown fails a request that is arriving, once, and no other one")
    func shutDown() {
        var machine = Self.machine()
        let fails15 = machine.shutDown(Self.at(101))
        #expect(!fails15)
        machine.receivedHead(Self.at(102))
        let fails16 = machine.shutDown(Self.at(103))
        #expect(fails16)
        let fails17 = machine.shutDown(Self.at(104))
        #expect(!fails17)
        var other = Self.machine()
        other.receivedHead(Self.at(102))
        other.receivedEnd()
        let fails18 = other.shutDown(Self.at(103))
        #expect(!fails18)
    }
}
