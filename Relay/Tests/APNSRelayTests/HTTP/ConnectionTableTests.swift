import NIOCore
import Testing

@testable import APNSRelay

struct ConnectionTableTests {
    private static let (a, b): ([UInt8], [UInt8]) = ([10, 0, 0, 1], [10, 0, 0, 2])

    private static func at(_ milliseconds: Int64) -> NIODeadline { .uptimeNanoseconds(0) + .milliseconds(milliseconds) }

    @Test("Below the limits, everybody stays")
    func below() {
        var table = ConnectionTable<Int>(limit: 4, limitOfAddress: 3, grace: .seconds(1))
        let opened = [
            table.open(1, from: Self.a, at: Self.at(0)), table.open(2, from: Self.a, at: Self.at(0)),
            table.open(3, from: Self.b, at: Self.at(0)),
        ]
        #expect(opened == [true, true, true])
        let (idle, next) = table.sweep(at: Self.at(5_000))
        #expect(idle.isEmpty && next == nil)
        #expect(table.count == 3)
    }

    @Test("At the limit, connections that are not proved within a second are closed")
    func limit() {
        var table = ConnectionTable<Int>(limit: 3, limitOfAddress: 3, grace: .seconds(1))
        _ = table.open(1, from: Self.a, at: Self.at(0))
        _ = table.open(2, from: Self.a, at: Self.at(0))
        _ = table.open(3, from: Self.b, at: Self.at(500))
        table.prove(1)
        let (idle, next) = table.sweep(at: Self.at(999))
        #expect(idle.isEmpty && next == Self.at(1_000))
        let (late, again) = table.sweep(at: Self.at(1_000))
        #expect(late == [2] && again == Self.at(1_500))
        // One that has a request in progress stays, and is asked again.
        let (both, later) = table.sweep(at: Self.at(2_000))
        #expect(both.sorted() == [2, 3] && later == Self.at(3_000))
        table.close(2)
        let (none, never) = table.sweep(at: Self.at(9_000))
        #expect(none.isEmpty && never == nil)
        table.close(2)
        #expect(table.count == 2)
    }

    @Test("An address at its limit gets no more connections, and its own ones make room")
    func address() {
        var table = ConnectionTable<Int>(limit: 100, limitOfAddress: 2, grace: .seconds(1))
        _ = table.open(1, from: Self.b, at: Self.at(0))
        for id in 2...3 { _ = table.open(id, from: Self.a, at: Self.at(0)) }
        let isRefused = !table.open(4, from: Self.a, at: Self.at(0))
        #expect(isRefused)
        table.prove(3)
        #expect(table.sweep(at: Self.at(1_000)).idle == [2])
        table.close(2)
        let isAdmitted = table.open(5, from: Self.a, at: Self.at(1_000))
        #expect(isAdmitted)
        table.prove(5)
        let (idle, next) = table.sweep(at: Self.at(9_000))
        #expect(idle.isEmpty && next == nil)
    }

    @Test("The addresses of one IPv6 network are one, and those of IPv4 are not")
    func keys() throws {
        func key(_ text: String) throws -> [UInt8] {
            OpenConnections.key(try SocketAddress(ipAddress: text, port: 1))
        }
        #expect(try key("2001:db8::1") == key("2001:db8::ffff:1"))
        #expect(try key("2001:db8::1") != key("2001:db8:0:1::1"))
        #expect(try key("10.0.0.1") != key("10.0.0.2"))
        #expect(try key("::ffff:10.0.0.1") == key("10.0.0.1"))
    }
}
