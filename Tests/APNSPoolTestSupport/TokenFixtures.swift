import Foundation
import SupervisedPool
import Synchronization
import Testing

@testable import APNSPool

/// A monotonic clock and a wall clock that stand still until the test moves them.
final class SettableClock: MonotonicClock {
    private struct Hands {
        var now = MonotonicInstant(nanoseconds: 0)
        var wall: Int64 = 1_800_000_000
    }

    private let hands = Mutex(Hands())

    var now: MonotonicInstant { hands.withLock { $0.now } }
    var wall: Int64 { hands.withLock { $0.wall } }

    /// Advances both clocks.
    func advance(minutes: Int64 = 0, seconds: Int64 = 0) {
        hands.withLock { hands in
            hands.now = hands.now.advanced(by: .seconds(minutes * 60 + seconds))
            hands.wall += minutes * 60 + seconds
        }
    }

    /// Sets the wall clock back.
    func setWall(back seconds: Int64) {
        hands.withLock { $0.wall -= seconds }
    }

    /// Sleeps until the task is cancelled: no test lets a call become late on this clock.
    func sleep(until instant: MonotonicInstant) async throws {
        await Latch().wait()
        throw CancellationError()
    }
}

/// A signer that counts its calls, and can be made to fail or wait.
final class ScriptedSigner: Sendable {
    struct Failure: Error {}

    private struct State {
        var count = 0
        var isFailing = false
        var isClosed = false
        var held: [CheckedContinuation<Void, Never>] = []
        var arrivals: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())

    /// The number of requested signatures.
    var count: Int { state.withLock { $0.count } }

    func setFailing(_ isFailing: Bool) {
        state.withLock { $0.isFailing = isFailing }
    }

    /// Holds every signature from now on.
    func close() {
        state.withLock { $0.isClosed = true }
    }

    func open() {
        let held = state.withLock { state in
            defer { state.held = [] }
            state.isClosed = false
            return state.held
        }
        for continuation in held { continuation.resume() }
    }

    /// Returns when a signature is being held.
    func arrival() async {
        await withCheckedContinuation { continuation in
            let isHere = state.withLock { state in
                if state.held.isEmpty { state.arrivals.append(continuation) }
                return !state.held.isEmpty
            }
            if isHere { continuation.resume() }
        }
    }

    func sign() async throws -> [UInt8] {
        await withCheckedContinuation { continuation in
            let arrivals = state.withLock { state -> [CheckedContinuation<Void, Never>]? in
                state.count += 1
                guard state.isClosed else { return nil }
                state.held.append(continuation)
                defer { state.arrivals = [] }
                return state.arrivals
            }
            if let arrivals {
                for arrival in arrivals { arrival.resume() }
            } else {
                continuation.resume()
            }
        }
        if state.withLock({ $0.isFailing }) { throw Failure() }
        return [UInt8](repeating: 7, count: 64)
    }

    func signer() throws -> ProviderTokenSigner {
        ProviderTokenSigner(identifiers: try .sample) { _ in try await self.sign() }
    }
}

extension SharedProviderToken {
    static func sample(issuedAt: Int64) -> SharedProviderToken {
        SharedProviderToken(jwt: "a.b.c", keyID: "9UC9ZLQ8YW", teamID: "ABBM6U9RM5", issuedAt: issuedAt)
    }
}

extension ProviderTokenCache {
    /// A token, without a deadline. Nil if the task is cancelled.
    func token() async throws -> ProviderToken? {
        let user = User(version: SendRouteVersion())
        self.add(user)
        defer { self.remove(user) }
        return switch await token(until: .distantFuture, version: user.version, while: { true }) {
        case .use(let token, _): token
        case .fail(let error, _): throw error
        case .wait: nil
        }
    }
}

extension TokenActor {
    /// An actor whose client is not notified.
    init(
        signer: ProviderTokenSigner,
        source: (any ProviderTokenSource)? = nil,
        cache: ProviderTokenCache,
        clock: any MonotonicClock
    ) {
        self.init(
            signer: signer,
            source: source,
            cache: cache,
            clock: clock,
            user: ProviderTokenCache.User(version: SendRouteVersion())
        )
    }
}

extension TokenIdentifiers {
    static var sample: TokenIdentifiers {
        get throws { try TokenIdentifiers(keyID: "9UC9ZLQ8YW", teamID: "ABBM6U9RM5", keyFile: nil) }
    }
}

/// Writes a file into a directory of its own while `body` runs.
func withFile<Result>(
    _ name: String,
    _ bytes: some Sequence<UInt8>,
    _ body: (String) throws -> Result
) throws -> Result {
    let directory = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: directory) }
    let file = directory.appendingPathComponent(name)
    try Data(bytes).write(to: file)
    return try body(file.path)
}

/// Returns the configuration error of `makeSigner()`. Fails the test if there is none.
func configurationError(_ authentication: APNSAuthentication) throws -> APNSConfigurationError {
    try #require(throws: APNSConfigurationError.self) { try authentication.makeSigner() }
}
