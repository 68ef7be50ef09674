@_spi(Relay) public import APNSModel

/// A list of faults as data, for `apns simulator --faults FILE` and for tests. `Docs/Simulator.md` describes the JSON
/// form.
///
/// `{"seed":7,"faults":[{"when":{"skip":100,"times":5},"effect":{"kind":"respond","reason":"ServiceUnavailable"}}]}`
///
/// A script with a fixed seed has a reproducible effect on equal requests in equal order.
public struct FaultScript: Sendable, Hashable {
    /// The seed for its probabilities and distributions; nil for the simulator's seed.
    public var seed: UInt64?
    /// The faults, evaluated in this order.
    public var faults: [Fault]

    /// - Parameters:
    ///   - faults: the faults, evaluated in this order.
    ///   - seed: the seed for probabilities and distributions; nil for the simulator's seed.
    public init(_ faults: [Fault] = [], seed: UInt64? = nil) {
        self.faults = faults
        self.seed = seed
    }

    /// Parses a script, or an array of faults without a script around it.
    ///
    /// - Parameter json: JSON in UTF-8.
    /// - Throws: `FaultScriptError` for text that is not JSON, and for unknown keys and invalid values.
    public init(json: some Sequence<UInt8>) throws(FaultScriptError) {
        do throws(JSONFieldError) {
            try self.init(Self.value(Array(json)))
        } catch {
            throw FaultScriptError(error)
        }
    }

    /// Parses a script, an array of faults, or a single fault.
    package init(orFault json: [UInt8]) throws(JSONFieldError) {
        let value = try Self.value(json)
        if let members = value.members, members["effect"] != nil || members["when"] != nil {
            self.init([try Fault(JSONReader(value, path: ""))])
        } else {
            try self.init(value)
        }
    }

    private static func value(_ json: [UInt8]) throws(JSONFieldError) -> JSONValue {
        do throws(JSONScanner.Failure) {
            return try JSONValue(parsing: JSONFileText.utf8(json))
        } catch {
            let problem = "this is not JSON: byte \(error.offset + 1): \(error)"
            throw JSONFieldError(keyPath: "", value: nil, problem: problem)
        }
    }
}

/// A fault: a trigger and an effect.
///
/// Each fault counts the events that match it, in the order in which the simulator handles them. If several faults
/// apply to one request, their delays add up and all additional effects happen. The first fault that decides the
/// request's result ends the evaluation.
public struct Fault: Sendable, Hashable {
    /// The trigger: when the fault applies.
    public var when: FaultTrigger
    /// The effect: what the fault does.
    public var effect: FaultEffect

    /// - Parameters:
    ///   - effect: what the fault does.
    ///   - when: when it applies; default: to the next request.
    public init(_ effect: FaultEffect, when: FaultTrigger = .next) {
        self.when = when
        self.effect = effect
    }

    /// The event for which it is evaluated.
    var event: FaultTrigger.Event {
        let events = self.effect.events
        if let event = self.when.event, events.contains(event) { return event }
        return events.first ?? .request
    }

    /// The next `count` requests get 503 `ServiceUnavailable`.
    public static func serviceUnavailable(count: Int) -> Fault {
        Fault(.respond(.serviceUnavailable), when: .next(count))
    }

    /// The next `count` requests get 500 `InternalServerError`.
    public static func internalServerError(count: Int) -> Fault {
        Fault(.respond(.internalServerError), when: .next(count))
    }

    /// The next `count` requests are refused: RST_STREAM(REFUSED_STREAM), not processed.
    public static func refuse(count: Int) -> Fault {
        Fault(.refuse, when: .next(count))
    }

    /// The next `count` requests get this reason and its status.
    public static func respond(_ reason: RejectionReason, count: Int = 1) -> Fault {
        Fault(.respond(reason), when: .next(count))
    }

    /// This share of all requests, from 0 to 1, gets this reason. Drawn from the seed.
    public static func share(_ share: Double, of reason: RejectionReason) -> Fault {
        Fault(.respond(reason), when: .probability(share))
    }
}

/// An error in a script, with its location.
public struct FaultScriptError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The location, for example `faults[2].effect.status`; empty for the whole script.
    public let keyPath: String
    /// The value as JSON, truncated to 80 characters; nil if there is none.
    public let value: String?
    /// What is wrong, and which values are allowed.
    public let problem: String

    public let description: String

    init(_ error: JSONFieldError) {
        self.keyPath = error.keyPath
        self.value = error.value
        self.problem = error.problem
        self.description = error.text("the script")
    }
}

extension FaultScript: Codable {
    public init(from decoder: any Decoder) throws {
        let value = try JSONValue(from: decoder)
        do throws(JSONFieldError) {
            try self.init(value)
        } catch {
            throw FaultScriptError(error)
        }
    }

    public func encode(to encoder: any Encoder) throws {
        try self.json.encode(to: encoder)
    }
}

extension Fault: Codable {
    public init(from decoder: any Decoder) throws {
        let value = try JSONValue(from: decoder)
        do throws(JSONFieldError) {
            try self.init(JSONReader(value, path: ""))
        } catch {
            throw FaultScriptError(error)
        }
    }

    public func encode(to encoder: any Encoder) throws {
        try self.json.encode(to: encoder)
    }
}
