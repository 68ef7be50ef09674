public import APNSModel

#if canImport(FoundationEssentials)
    internal import FoundationEssentials
#else
    internal import Foundation
#endif

/// A list of faults as data, for `apns simulator --faults FILE` and for tests. `Docs/Simulator.md` has all of it as JSON.
///
/// `{"seed":7,"faults":[{"when":{"skip":100,"times":5},"effect":{"kind": "respond","reason":"ServiceUnavailable"}}]}`
///
/// The same script with the same seed does the same to the same requests in the same order.
public struct FaultScript: Sendable, Hashable {
    /// What its probabilities and distributions are drawn from; nil: the simulator's seed.
    public var seed: UInt64?
    /// The faults, asked in this order.
    public var faults: [Fault]

    /// - Parameters:
    ///   - faults: asked in this order.
    ///   - seed: what probabilities are drawn from; nil: the simulator's seed.
    public init(_ faults: [Fault] = [], seed: UInt64? = nil) {
        self.faults = faults
        self.seed = seed
    }

    /// Reads a script, or an array of faults alone.
    ///
    /// Throws `FaultScriptError` for text that is no JSON, and for keys and values that no fault has.
    ///
    /// - Parameter json: UTF-8.
    public init(json: some Sequence<UInt8>) throws(FaultScriptError) {
        let value: JSONValue
        do {
            value = try JSONDecoder().decode(JSONValue.self, from: Data(json))
        } catch {
            throw FaultScriptError(keyPath: "", value: nil, problem: "this is not JSON")
        }
        self = try ScriptReader.script(value)
    }
}

/// A misbehaviour: when it happens and what it is.
///
/// Each fault counts the events that match it, in the order in which the simulator sees them. Of the faults that apply to
/// one request, delays add up, whatever goes beside a response is done, and the first one that decides the request's fate
/// does so.
public struct Fault: Sendable, Hashable {
    /// When it happens.
    public var when: FaultTrigger
    /// What happens.
    public var effect: FaultEffect

    /// - Parameters:
    ///   - effect: what happens.
    ///   - when: when; default: to the next request.
    public init(_ effect: FaultEffect, when: FaultTrigger = .next) {
        self.when = when
        self.effect = effect
    }

    /// The event that it is asked for.
    var event: FaultTrigger.Event {
        let events = self.effect.events
        if let event = self.when.event, events.contains(event) { return event }
        return events.first ?? .request
    }

    /// The next `count` requests are answered 503 `ServiceUnavailable`.
    public static func serviceUnavailable(count: Int) -> Fault {
        Fault(.respond(.serviceUnavailable), when: .next(count))
    }

    /// The next `count` requests are answered 500 `InternalServerError`.
    public static func internalServerError(count: Int) -> Fault {
        Fault(.respond(.internalServerError), when: .next(count))
    }

    /// The next `count` requests are refused: RST_STREAM(REFUSED_STREAM), not processed.
    public static func refuse(count: Int) -> Fault {
        Fault(.refuse, when: .next(count))
    }

    /// Each of the next `count` requests is answered with this reason and its status.
    public static func respond(_ reason: RejectionReason, count: Int = 1) -> Fault {
        Fault(.respond(reason), when: .next(count))
    }

    /// This share of all requests, from 0 to 1, is answered with this reason, drawn from the seed.
    public static func share(_ share: Double, of reason: RejectionReason) -> Fault {
        Fault(.respond(reason), when: .probability(share))
    }
}

/// What is wrong with a script, and where.
public struct FaultScriptError: Error, Sendable, Hashable, CustomStringConvertible {
    /// For example `faults[2].effect.status`; empty: the whole.
    public let keyPath: String
    /// The value as JSON, cut off after 80 characters; nil: there is none.
    public let value: String?
    /// What is wrong, and what would be right.
    public let problem: String

    init(keyPath: String, value: JSONValue?, problem: String) {
        self.keyPath = keyPath
        self.value = value.map { String(String(decoding: $0.bytes, as: UTF8.self).prefix(80)) }
        self.problem = problem
    }

    public var description: String {
        let place = self.keyPath.isEmpty ? "the script" : self.keyPath
        return place + (self.value.map { " = \($0)" } ?? "") + ": " + self.problem
    }
}

extension FaultScript: Codable {
    public init(from decoder: any Decoder) throws {
        self = try ScriptReader.script(JSONValue(from: decoder))
    }

    public func encode(to encoder: any Encoder) throws {
        try self.json.encode(to: encoder)
    }
}

extension Fault: Codable {
    public init(from decoder: any Decoder) throws {
        self = try ScriptReader(JSONValue(from: decoder), path: "").fault()
    }

    public func encode(to encoder: any Encoder) throws {
        try self.json.encode(to: encoder)
    }
}
