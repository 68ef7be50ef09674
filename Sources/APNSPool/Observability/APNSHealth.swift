/// How a client is, in a word: for a readiness probe, an alarm, a dashboard.
///
/// A push that is sent while the client is `serving` or `degraded` goes its usual way; while it is `failing`, pushes fail
/// at once, or wait in vain. Nothing but `stopped` is final: the client goes on trying by itself, so that a process need
/// not be restarted because its client is `failing`.
public enum APNSHealth: Sendable, Hashable, CustomStringConvertible {
    /// Nobody runs it yet, or it has had no connection yet and has not failed for long: pushes wait.
    case starting
    /// All is well.
    case serving
    /// It serves, and worse than it could.
    case degraded(Cause)
    /// It does not serve.
    case failing(Cause)
    /// It takes no pushes any more: it drains, or has ended.
    case stopped

    /// Why.
    public struct Cause: Sendable, Hashable, CustomStringConvertible {
        /// The reason as a word, for alarms. Later versions may add codes.
        public struct Code: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
            public let rawValue: String

            public init(rawValue: String) {
                self.rawValue = rawValue
            }

            public var description: String { self.rawValue }

            // Degraded.

            /// The last connection was lost, another one is on its way; pushes wait for it.
            public static let reconnecting = Code(rawValue: "reconnecting")
            /// So many device tokens are refused that the environment or the topic must be wrong.
            public static let suspectedMisconfiguration = Code(rawValue: "suspected-misconfiguration")
            /// APNs answers 503 more often than connections may be replaced: fewer pushes are sent at once.
            public static let overload = Code(rawValue: "overload")

            // Failing, and degraded.

            /// APNs refuses the key or the certificate, it was revoked here, or no provider token can be signed. Degraded
            /// while an older provider token still serves, and while a new connection checks a first refusal.
            public static let credential = Code(rawValue: "credential")

            // Failing.

            /// No connection to APNs for `pool.unavailableAfter`, 10 s by default.
            public static let unreachable = Code(rawValue: "unreachable")
            /// No connection can be made as configured: a host that does not exist, an untrusted certificate.
            public static let configuration = Code(rawValue: "configuration")
            /// A fault of this library: the client starts anew after a pause.
            public static let internalFault = Code(rawValue: "internal-fault")
        }

        /// The reason as a word.
        public let code: Code
        /// For people. Holds no secret.
        public let message: String

        public var description: String { "\(self.code): \(self.message)" }
    }

    /// Whether pushes are worth sending now: `serving` or `degraded`.
    public var isReady: Bool {
        switch self {
        case .serving, .degraded: true
        case .starting, .failing, .stopped: false
        }
    }

    /// Why it is not `serving`; nil if it is, starts or has stopped.
    public var cause: Cause? {
        switch self {
        case .degraded(let cause), .failing(let cause): cause
        case .starting, .serving, .stopped: nil
        }
    }

    /// The state without its cause: `starting`, `serving`, `degraded`, `failing`, `stopped`.
    public var name: String {
        switch self {
        case .starting: "starting"
        case .serving: "serving"
        case .degraded: "degraded"
        case .failing: "failing"
        case .stopped: "stopped"
        }
    }

    public var description: String { self.cause.map { "\(self.name) (\($0))" } ?? self.name }
}

/// What a client's health follows from.
struct HealthInputs: Sendable, Equatable {
    enum Connections: Sendable, Equatable {
        /// One is ready, or none is and none is wanted.
        case available
        /// None is ready, one is being opened or waits to be.
        case connecting
        /// For so long that pushes fail, with the last fault.
        case unavailable(String?)
    }

    var lifecycle = ClientLifecycle.State.running
    /// The tree rests after an escalation.
    var isPaused = false
    var isRevoked = false
    /// What APNs refuses, in its words.
    var credentialFault: String?
    /// What one connection was refused. Another one has not confirmed it yet.
    var suspectedRefusal: String?
    /// The last provider token could not be signed.
    var signingTrouble: ProviderTokenCache.Trouble?
    /// Why no connection can be made as configured.
    var configurationFault: String?
    var connections = Connections.available
    /// There was a connection once.
    var hasConnected = true
    var suspectsMisconfiguration = false
    var degradedConnections = 0
}

extension APNSHealth {
    /// The first line that holds: what stops every push comes before what stops some.
    init(_ inputs: HealthInputs) {
        switch inputs.lifecycle {
        case .draining, .stopped: self = .stopped
        case .notStarted: self = .starting
        case .running: self = Self.running(inputs)
        }
    }

    private static func running(_ inputs: HealthInputs) -> APNSHealth {
        if inputs.isPaused {
            return .failing(
                .init(code: .internalFault, message: "a fault of the library; it starts anew after a pause")
            )
        }
        if inputs.isRevoked {
            return .failing(.init(code: .credential, message: "the authentication was revoked"))
        }
        if let refusal = inputs.credentialFault {
            return .failing(.init(code: .credential, message: "APNs refuses the credential: \(refusal)"))
        }
        if case .noToken(let error) = inputs.signingTrouble {
            return .failing(.init(code: .credential, message: "there is no provider token: \(error)"))
        }
        if inputs.connections != .available, let fault = inputs.configurationFault {
            return .failing(.init(code: .configuration, message: fault))
        }
        switch inputs.connections {
        case .unavailable(let fault):
            let text = fault.map { ": \($0)" } ?? ""
            return .failing(.init(code: .unreachable, message: "no connection to APNs for a while\(text)"))
        case .connecting:
            guard inputs.hasConnected else { return .starting }
            if let refusal = inputs.suspectedRefusal {
                let message = "APNs refused the credential once, a new connection checks it: \(refusal)"
                return .degraded(.init(code: .credential, message: message))
            }
            return .degraded(.init(code: .reconnecting, message: "the last connection was lost, another one is opened"))
        case .available:
            break
        }
        if inputs.suspectsMisconfiguration {
            return .degraded(
                .init(
                    code: .suspectedMisconfiguration,
                    message: "most device tokens are refused: the environment, the topic or the key must be wrong"
                )
            )
        }
        if case .notRenewed(let error) = inputs.signingTrouble {
            let message = "the provider token cannot be renewed, the one in use serves up to 58 minutes: \(error)"
            return .degraded(.init(code: .credential, message: message))
        }
        if inputs.degradedConnections > 0 {
            return .degraded(.init(code: .overload, message: "APNs answers 503: fewer pushes are sent at once"))
        }
        return .serving
    }
}
