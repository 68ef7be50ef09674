import SupervisedPool
import Testing

@testable import APNSPool

/// How long the client waits for a signer, and when it calls the signer again.
struct SignerCallMachineTests {
    private func at(_ seconds: Int64) -> MonotonicInstant { MonotonicInstant(nanoseconds: seconds * 1_000_000_000) }
    private let order = TokenStateMachine.Order(
        generation: 1,
        issuedAt: 1_800_000_000,
        orderedAt: MonotonicInstant(nanoseconds: 0)
    )

    private func limit(_ number: Int, _ seconds: Int64) -> SignerCallMachine.Timer {
        .init(kind: .limit, number: number, at: at(seconds))
    }

    @Test("All callers that need a token share one call of the signer")
    func oneCall() {
        var machine = SignerCallMachine(patience: .zero)
        #expect(
            machine.wanted(order, now: at(0)) == [.disarm(.retry), .call(1, order), .arm(limit(1, 10))]
        )
        #expect(machine.wanted(order, now: at(1)) == [])
        #expect(machine.isCurrent(1))
        #expect(machine.completed(1, hasToken: true) == [.disarm(.limit)])
        #expect(!machine.isCurrent(1))
        #expect(machine.wanted(order, now: at(2)).contains(.call(2, order)))
    }

    @Test("A call of a signer is abandoned after ten seconds, and its late result is not current")
    func givenUp() {
        var machine = SignerCallMachine(patience: .zero)
        _ = machine.wanted(order, now: at(0))
        #expect(machine.fired(limit(1, 10), now: at(10)) == [.cancel(1), .fail])
        #expect(machine.tryAgain(at: at(15)) == [.arm(.init(kind: .retry, number: 0, at: at(15)))])
        #expect(machine.fired(.init(kind: .retry, number: 0, at: at(15)), now: at(15)) == [.tryAgain])
        _ = machine.wanted(order, now: at(15))
        #expect(!machine.isCurrent(1) && machine.isCurrent(2))
        #expect(machine.completed(1, hasToken: false) == [])
        // A timer of the first call has no effect.
        #expect(machine.fired(limit(1, 10), now: at(16)) == [])
    }

    @Test("A late source is not called again before it returns or its patience is over")
    func lateSource() {
        var machine = SignerCallMachine(patience: .seconds(20))
        _ = machine.wanted(order, now: at(0))
        #expect(machine.fired(limit(1, 10), now: at(10)) == [.arm(limit(1, 30)), .fail])
        #expect(machine.wanted(order, now: at(11)) == [.refuse])
        #expect(machine.tryAgain(at: at(15)) == [])
        #expect(machine.fired(.init(kind: .retry, number: 0, at: at(15)), now: at(15)) == [])
        #expect(machine.isCurrent(1))
        #expect(machine.fired(limit(1, 30), now: at(30)) == [.cancel(1), .tryAgain])
        #expect(machine.wanted(order, now: at(30)).contains(.call(2, order)))
    }

    @Test("A late token cancels the next call")
    func lateToken() {
        var machine = SignerCallMachine(patience: .zero)
        _ = machine.wanted(order, now: at(0))
        _ = machine.fired(limit(1, 10), now: at(10))
        _ = machine.wanted(order, now: at(15))
        #expect(machine.completed(1, hasToken: true) == [.disarm(.limit), .cancel(2)])
        #expect(!machine.isCurrent(2))
        #expect(machine.fired(limit(2, 25), now: at(25)) == [])
    }

    @Test("A signer that never returns is called four times, and again after one call has returned")
    func hangingForEver() {
        var machine = SignerCallMachine(patience: .zero)
        for number in 1...4 {
            let now = Int64(number) * 100
            #expect(machine.wanted(order, now: at(now)).contains(.call(number, order)))
            _ = machine.fired(limit(number, now + 10), now: at(now + 10))
        }
        #expect(machine.wanted(order, now: at(500)) == [.fail])
        _ = machine.completed(2, hasToken: false)
        #expect(machine.wanted(order, now: at(600)).contains(.call(5, order)))
    }

    @Test("A late call that completes disarms its timer")
    func lateResult() {
        var machine = SignerCallMachine(patience: .seconds(20))
        _ = machine.wanted(order, now: at(0))
        _ = machine.fired(limit(1, 10), now: at(10))
        #expect(machine.completed(1, hasToken: true) == [.disarm(.limit)])
        #expect(machine.fired(limit(1, 30), now: at(30)) == [])
    }
}

struct TokenCachesTests {
    @Test("The caches of the most recent keys are kept, and a cache without a public key is never shared")
    func lastKeys() throws {
        var caches = TokenCaches()
        func resolved(_ number: UInt8?) throws -> ResolvedAuthentication {
            var resolved = ResolvedAuthentication(authentication: .withoutToken, policy: .standard)
            resolved.signer = ProviderTokenSigner(
                identifiers: try .sample,
                publicKey: number.map { [$0] },
                sign: { _ in [] }
            )
            return resolved
        }
        let first = caches.cache(of: try resolved(1))
        for number: UInt8 in 2...4 { #expect(caches.cache(of: try resolved(number)) !== first) }
        #expect(caches.cache(of: try resolved(1)) === first)
        for number: UInt8 in 5...8 { _ = caches.cache(of: try resolved(number)) }
        #expect(caches.cache(of: try resolved(1)) !== first)
        #expect(caches.cache(of: try resolved(nil)) !== caches.cache(of: try resolved(nil)))
        // Other keys on trial do not evict the cache of the key in use.
        let used = try resolved(20)
        let current = caches.cache(of: used)
        for number: UInt8 in 21...30 { _ = caches.cache(of: try resolved(number), keeping: used.signer) }
        #expect(caches.cache(of: used) === current)
    }
}
