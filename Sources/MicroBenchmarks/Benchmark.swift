import APNSModel
import APNSBasics
import APNSTransport

@testable import APNSPool
@testable import SupervisedPool

/// One part of the hot path, repeatable.
struct Benchmark: Sendable {
    var name: String
    /// How many calls cost far more than starting the program.
    var count: Int
    /// Runs it the given number of times and returns a number that depends on each result.
    var run: @Sendable (Int) async throws -> Int

    static let all: [Benchmark] = [
        payloadWriter, requestEncoder, pushID, tokenSigning, poolCheckout,
    ]
}

private struct Acme: Encodable, Sendable {
    var acme2: [String]
}

/// The notification of the documentation's examples.
private func sample() -> PushNotification {
    PushNotification(
        topic: "com.grasscove.Fern",
        alert: Alert(title: "Hey There", subtitle: "Full moon sighting", body: "Did you see it?")
    )
    .badge(1)
    .sound("cow.wav")
    .custom(Acme(acme2: ["bang", "whiz"]))
}

private let deviceToken = "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0"

extension Benchmark {
    /// A notification built from its values, encoded and validated.
    fileprivate static let payloadWriter = Benchmark(name: "payload-writer", count: 2000) { count in
        var bytes = 0
        for _ in 0..<count { bytes &+= try sample().prepared().payload.count }
        return bytes
    }

    /// The request of one push: shared header block looked up, path, id and the rest written.
    fileprivate static let requestEncoder = Benchmark(name: "request-encoder", count: 5000) { count in
        var blocks = HeaderBlocks(authority: "api.push.apple.com")
        let push = try sample().prepared()
        let token = try DeviceToken(deviceToken)
        let ids = IDSource()
        let id = ids.next()
        let credential = HeaderBlock([.init("authorization", "bearer token", .never)])
        var bytes = 0
        for _ in 0..<count {
            let block = blocks.block(for: push)
            let request = RequestEncoder.request(push, block: block, to: token, id: id, credential: credential)
            bytes &+= request.values.count
        }
        return bytes
    }

    /// A random `apns-id`.
    fileprivate static let pushID = Benchmark(name: "push-id", count: 200_000) { count in
        let ids = IDSource()
        var different = 0
        var last = ids.next()
        for _ in 0..<count {
            let id = ids.next()
            if id != last { different &+= 1 }
            last = id
        }
        return different
    }

    /// A provider token with its ES256 signature. The key is fixed, so that each run does the same.
    fileprivate static let tokenSigning = Benchmark(name: "token-signing", count: 200) { count in
        // SEC 1 (RFC 5915): version, number, and the name of the curve.
        let curve: [UInt8] = [0xA0, 0x0A, 0x06, 0x08, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01, 0x07]
        let key = try ES256PrivateKey(der: [0x30, 0x31, 0x02, 0x01, 0x01, 0x04, 0x20] + (1...32) + curve)
        let identifiers = try TokenIdentifiers(keyID: "ABC123DEFG", teamID: "ABCDE12345", keyFile: nil)
        let signer = ProviderTokenSigner(key: key, identifiers: identifiers)
        var bytes = 0
        for number in 0..<count { bytes &+= try await signer.jwt(issuedAt: 1_700_000_000 + Int64(number)).utf8.count }
        return bytes
    }

    /// Checks one stream of a pool of four workers out and in again, while others are leased.
    fileprivate static let poolCheckout = Benchmark(name: "pool-checkout", count: 50_000) { count in
        var machine = PoolStateMachine(PoolConfiguration(size: 4, maxOverflow: 0))
        var random = SplitMix64(seed: 1)
        var actions: [PoolAction] = []
        let now = MonotonicInstant(nanoseconds: 1_000_000_000)
        machine.start()
        for index in 0..<4 {
            let worker = WorkerID(index: index, generation: 1)
            _ = machine.register(worker, now: now)
            machine.report(.ready(capacity: 1000), from: worker, now: now)
        }
        machine.settle(now: now, using: &random, into: &actions)
        let deadline = now.advanced(by: .seconds(60))
        var leased: [LeaseOrigin] = []
        var leasedCount = 0
        for _ in 0..<count {
            let request = PoolStateMachine.Request(deadline: deadline)
            let decision = machine.checkout(request, now: now, using: &random, into: &actions)
            guard case .leased(let origin, let count) = decision else { throw Unexpected("no stream was free") }
            leasedCount &+= count
            leased.append(origin)
            if leased.count == 100 {
                for origin in leased { machine.checkin(origin, count: 1) }
                leased.removeAll(keepingCapacity: true)
            }
        }
        return leasedCount
    }
}

private struct Unexpected: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) {
        self.description = description
    }
}
