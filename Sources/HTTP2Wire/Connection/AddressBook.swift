import NIOCore
import Synchronization

/// Counts which of a host's addresses the connections of one pool use, so that a new connection prefers other
/// addresses: APNs' names have many addresses, and one of them may be failing.
package final class AddressBook: Sendable {
    /// The addresses that count as used by one connection. They count until the connection ends.
    final class Entry: Sendable {
        private struct State {
            var addresses: [String] = []
            var isOver = false
        }

        private let book: AddressBook
        private let state = Mutex(State())

        fileprivate init(_ book: AddressBook) {
            self.book = book
        }

        deinit { self.end() }

        /// The addresses of one family, in the order in which to try them: shuffled, then sorted by the number of
        /// connections that use them, fewest first. The first one counts as used from now on.
        func order(_ addresses: [SocketAddress], using generator: inout some RandomNumberGenerator) -> [SocketAddress] {
            let shuffled = addresses.shuffled(using: &generator)
            return self.state.withLock { state in
                let (ordered, first) = self.book.order(shuffled, reserving: !state.isOver)
                if let first { state.addresses.append(first) }
                return ordered
            }
        }

        /// Records the address to which the connection was established.
        func settle(on address: SocketAddress?) {
            self.state.withLock { state in
                guard !state.isOver else { return }
                self.book.leave(state.addresses)
                state.addresses = self.book.enter(address)
            }
        }

        func end() {
            self.state.withLock { state in
                self.book.leave(state.addresses)
                state.addresses = []
                state.isOver = true
            }
        }
    }

    private let counts = Mutex<[String: Int]>([:])

    package init() {}

    func makeEntry() -> Entry { Entry(self) }

    /// How many connections use each address, keyed by its text. For tests.
    package var inUse: [String: Int] { self.counts.withLock { $0 } }

    /// Sorts addresses by use, least used first, and otherwise keeps their order.
    private func order(_ addresses: [SocketAddress], reserving: Bool) -> ([SocketAddress], first: String?) {
        self.counts.withLock { counts in
            func count(_ address: SocketAddress) -> Int { address.ipAddress.flatMap { counts[$0] } ?? 0 }
            let ordered = addresses.enumerated()
                .sorted { (count($0.element), $0.offset) < (count($1.element), $1.offset) }
                .map(\.element)
            guard reserving, let first = ordered.first?.ipAddress else { return (ordered, nil) }
            counts[first, default: 0] += 1
            return (ordered, first)
        }
    }

    private func enter(_ address: SocketAddress?) -> [String] {
        guard let text = address?.ipAddress else { return [] }
        self.counts.withLock { $0[text, default: 0] += 1 }
        return [text]
    }

    private func leave(_ addresses: [String]) {
        guard !addresses.isEmpty else { return }
        self.counts.withLock { counts in
            for address in addresses {
                let left = (counts[address] ?? 1) - 1
                counts[address] = left > 0 ? left : nil
            }
        }
    }
}
