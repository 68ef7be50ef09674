import NIOCore
import Synchronization
import TestSupport
import Testing

@testable import HTTP2Wire

/// The order in which connections try the addresses of a host.
struct AddressBookTests {
    private let addresses: [SocketAddress]

    init() throws {
        self.addresses = try (1...4).map { try SocketAddress(ipAddress: "127.0.0.\($0)", port: 443) }
    }

    private func text(_ addresses: [SocketAddress]) -> [String] { addresses.compactMap(\.ipAddress) }

    @Test func everyAddressIsSometimesFirst() {
        var firsts: [String: Int] = [:]
        for seed in 0..<400 {
            var random = SeededRandom(seed: UInt64(seed))
            let entry = AddressBook().makeEntry()
            let ordered = self.text(entry.order(self.addresses, using: &random))
            #expect(Set(ordered) == Set(self.text(self.addresses)))
            firsts[ordered[0], default: 0] += 1
        }
        #expect(firsts.count == 4)
        #expect(firsts.values.allSatisfy { $0 > 50 }, "\(firsts)")
    }

    @Test func connectionsTakeUnusedAddressesFirst() {
        for seed in 0..<50 {
            var random = SeededRandom(seed: UInt64(seed))
            let book = AddressBook()
            // All exist before any of them connects.
            let entries = (0..<8).map { _ in book.makeEntry() }
            let firsts = entries.map { self.text($0.order(self.addresses, using: &random))[0] }
            #expect(Set(firsts[..<4]).count == 4, "seed \(seed): \(firsts)")
            #expect(Set(firsts[4...]).count == 4, "seed \(seed): \(firsts)")
            #expect(book.inUse.values.allSatisfy { $0 == 2 })
            withExtendedLifetime(entries) {}
        }
    }

    @Test func theBookCountsTheAddressThatConnected() {
        var random = SeededRandom(seed: 7)
        let book = AddressBook()
        let entry = book.makeEntry()
        _ = entry.order(self.addresses, using: &random)
        entry.settle(on: self.addresses[2])
        #expect(book.inUse == ["127.0.0.3": 1])
        for _ in 0..<50 {
            let sibling = book.makeEntry()
            #expect(self.text(sibling.order(self.addresses, using: &random)).last == "127.0.0.3")
            sibling.end()
        }
        entry.end()
        #expect(book.inUse.isEmpty)
        // A look-up that finishes after its connection ended changes nothing.
        _ = entry.order(self.addresses, using: &random)
        entry.settle(on: self.addresses[0])
        #expect(book.inUse.isEmpty)
    }

    @Test func aReleasedEntryLeavesTheBook() {
        var random = SeededRandom(seed: 7)
        let book = AddressBook()
        do {
            let entry = book.makeEntry()
            _ = entry.order(self.addresses, using: &random)
            #expect(book.inUse.count == 1)
        }
        #expect(book.inUse.isEmpty)
    }

    @Test func aConnectionEntersAndLeavesTheBook() async throws {
        let server = try await EchoServer.start(names: ["many.example.com"])
        let book = AddressBook()
        let found = [try SocketAddress(ipAddress: "127.0.0.1", port: server.port)]
        let asked = Mutex(0)
        let probe = ConnectionProbe(server: server, host: "many.example.com")
        let beginning = await probe.open {
            $0.addresses = book
            $0.nameResolver = NameResolver { _, _ in
                asked.withLock { $0 += 1 }
                return .success(found)
            }
        }
        #expect(beginning == .ready(maxConcurrentStreams: 100))
        #expect(book.inUse == ["127.0.0.1": 1])
        #expect(asked.withLock { $0 } == 1)
        await probe.close()
        _ = await probe.closed()
        #expect(book.inUse.isEmpty)
        await server.stop()
    }

    @Test func aFailedLookUpEndsTheConnection() async throws {
        let probe = ConnectionProbe(host: "many.example.com", port: 443, tls: TLSConfiguration())
        let beginning = await probe.open {
            $0.nameResolver = NameResolver { host, _ in .failure(WireError(.hostNotFound, "no \(host)")) }
        }
        #expect(beginning == .closed(.hostNotFound))
    }
}
