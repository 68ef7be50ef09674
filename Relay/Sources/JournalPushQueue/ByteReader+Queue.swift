package import APNSModel
import PushQueue

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Reads the values that `ByteWriter+Queue.swift` writes.
extension ByteReader {
    package mutating func id() throws(MalformedBytes) -> APNSID {
        APNSID(high: try self.integer(), low: try self.integer())
    }

    mutating func int() throws(MalformedBytes) -> Int { Int(clamping: try self.integer(Int64.self)) }

    mutating func time() throws(MalformedBytes) -> QueueTime { QueueTime(millisecondsSince1970: try self.integer()) }

    mutating func duration() throws(MalformedBytes) -> Duration { .milliseconds(try self.integer(Int64.self)) }

    mutating func route() throws(MalformedBytes) -> Route {
        Route(
            app: try self.string(),
            environment: try self.string(),
            lane: try self.bool() ? .interactive : .bulk
        )
    }

    mutating func claim() throws(MalformedBytes) -> Claim {
        Claim(id: try self.id(), epoch: try self.integer(), position: try self.integer())
    }

    mutating func newPush() throws(MalformedBytes) -> NewPush {
        let id = try self.id()
        let route = try self.route()
        let token = try self.token()
        let topic = try self.string()
        let type = try self.string()
        let payload = try self.array()
        let priority = try self.optional { reader throws(MalformedBytes) in try reader.int() }
        let expiration = try self.optional { reader throws(MalformedBytes) in try reader.integer(Int64.self) }
        let collapseID = try self.optional { reader throws(MalformedBytes) in try reader.valid { try CollapseID($0) } }
        let push = try? PreparedPush(
            topic: topic,
            pushType: PushType(rawValue: type),
            payload: payload,
            priority: priority.map { Priority(rawValue: $0) },
            expiration: expiration.map { $0 == 0 ? .immediate : .at(secondsSince1970: $0) } ?? .systemDefault,
            collapseID: collapseID,
            skippingValidation: true
        )
        guard let push else { throw MalformedBytes() }
        return NewPush(
            id: id,
            route: route,
            token: token,
            push: push,
            caller: try self.string(),
            notBefore: try self.time(),
            deadline: try self.time(),
            resendsUnknown: try self.bool(),
            supersedes: try self.optional { reader throws(MalformedBytes) in
                SupersedeKey(rawValue: try reader.string())
            },
            idempotency: try self.optional { reader throws(MalformedBytes) in
                IdempotencyKey(key: try reader.string(), digest: try reader.array())
            }
        )
    }

    mutating func token() throws(MalformedBytes) -> DeviceToken { try self.valid { try DeviceToken($0) } }

    private mutating func valid<Value>(_ make: (String) throws -> Value) throws(MalformedBytes) -> Value {
        guard let value = try? make(try self.string()) else { throw MalformedBytes() }
        return value
    }

    mutating func settlement() throws(MalformedBytes) -> Settlement {
        Settlement(claim: try self.claim(), outcome: try self.outcome())
    }

    mutating func release() throws(MalformedBytes) -> Release {
        Release(
            claim: try self.claim(),
            notBefore: try self.time(),
            outcome: try self.optional { reader throws(MalformedBytes) in try reader.outcome() },
            countsAttempt: try self.bool()
        )
    }

    mutating func outcome() throws(MalformedBytes) -> PushOutcome {
        if try self.bool() {
            return .accepted(
                Receipt(
                    apnsID: try self.id(),
                    apnsUniqueID: try self.optional { reader throws(MalformedBytes) in try reader.string() },
                    attempts: try self.int()
                )
            )
        }
        let text = try self.array()
        guard let outcome = try? JSONDecoder().decode(PushOutcome.self, from: Data(text)) else {
            throw MalformedBytes()
        }
        return outcome
    }
}
