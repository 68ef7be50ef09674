import APNSSimulator
import Synchronization

@testable import APNSPool

/// A signer whose first calls hang and ignore cancellation.
final class HangingSigner: APNSTokenSigner {
    private let key = SimulatedKey()
    private let hangingCalls: Int
    private let callCount = Atomic<Int>(0)
    private let latch = Latch()

    init(hangingCalls: Int = .max) { self.hangingCalls = hangingCalls }

    var count: Int { self.callCount.load(ordering: .relaxed) }

    /// Releases the calls that hang.
    func release() { self.latch.open() }

    func signature(for bytes: [UInt8]) async throws -> [UInt8] {
        if self.callCount.wrappingAdd(1, ordering: .relaxed).oldValue < self.hangingCalls {
            let latch = self.latch
            _ = await Task { await latch.wait() }.value
        }
        return try self.key.signature(for: bytes)
    }

    var authentication: APNSAuthentication {
        .token(signer: self, keyID: "9UC9ZLQ8YW", teamID: "ABBM6U9RM5")
    }
}
