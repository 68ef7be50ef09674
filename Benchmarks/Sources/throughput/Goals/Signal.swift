import Synchronization

/// Raised once, seen by all.
final class Signal: Sendable {
    private let value = Atomic(false)

    var isRaised: Bool { value.load(ordering: .acquiring) }

    func raise() {
        value.store(true, ordering: .releasing)
    }
}
