package import APNSModel
import PushQueue

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// How the queue's values are stored.
extension ByteWriter {
    package mutating func write(_ id: APNSID) {
        self.write(id.high)
        self.write(id.low)
    }

    mutating func write(_ time: QueueTime) { self.write(time.millisecondsSince1970) }

    /// In whole milliseconds.
    mutating func write(_ duration: Duration) {
        self.write(QueueTime(millisecondsSince1970: 0).advanced(by: duration))
    }

    mutating func write(_ route: Route) {
        self.write(route.app)
        self.write(route.environment)
        self.write(route.lane == .interactive)
    }

    mutating func write(_ claim: Claim) {
        self.write(claim.id)
        self.write(claim.epoch)
        self.write(claim.position)
    }

    mutating func write(_ push: NewPush) {
        self.write(push.id)
        self.write(push.route)
        self.write(push.token.hexadecimal)
        self.write(push.push.topic)
        self.write(push.push.pushType.rawValue)
        self.write(push.push.payload)
        self.write(push.push.priority) { $0.write(Int64($1.rawValue)) }
        self.write(push.push.expiration.headerValue) { $0.write($1) }
        self.write(push.push.collapseID) { $0.write($1.rawValue) }
        self.write(push.caller)
        self.write(push.notBefore)
        self.write(push.deadline)
        self.write(push.resendsUnknown)
        self.write(push.supersedes) { $0.write($1.rawValue) }
        self.write(push.idempotency) {
            $0.write($1.key)
            $0.write($1.digest)
        }
    }

    mutating func write(_ settlement: Settlement) {
        self.write(settlement.claim)
        self.write(settlement.outcome)
    }

    mutating func write(_ release: Release) {
        self.write(release.claim)
        self.write(release.notBefore)
        self.write(release.outcome) { $0.write($1) }
        self.write(release.countsAttempt)
    }

    /// Most outcomes are accepted, so these take few bytes. The others take the stable coded form of the library.
    mutating func write(_ outcome: PushOutcome) {
        if let receipt = outcome.receipt {
            self.write(true)
            self.write(receipt.apnsID)
            self.write(receipt.apnsUniqueID) { $0.write($1) }
            self.write(Int64(receipt.attempts))
        } else {
            self.write(false)
            self.write((try? JSONEncoder().encode(outcome)).map { Array($0) } ?? [])
        }
    }
}
