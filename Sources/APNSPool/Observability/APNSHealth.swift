/// The health of a client, for a readiness probe, an alarm or a dashboard.
///
/// While the client is `serving` or `degraded`, pushes are sent; `degraded` can delay them. While it is `failing`,
/// pushes fail at once or wait in vain. Only `stopped` is final. In all other states the client keeps retrying, unless
/// its authentication was revoked and must be replaced. You need not restart a process because its client is `failing`.
public enum APNSHealth: Sendable, Hashable, CustomStringConvertible {
    /// The client does not run yet, or waits for its first provider token, or it has waited for its first connection
    /// for less than `pool.unavailableAfter`: pushes wait.
    case starting
    /// The client works normally.
    case serving
    /// The client sends pushes, but with limitations.
    case degraded(Cause)
    /// The client cannot send pushes.
    case failing(Cause)
    /// The client accepts no more pushes: it drains, or has ended.
    case stopped

    /// The reason for a degraded or failing state.
    public struct Cause: Sendable, Hashable, CustomStringConvertible {
        /// The reason as a code, for alarms. Later versions may add codes.
        public struct Code: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
            public let rawValue: String

            public init(rawValue: String) {
                self.rawValue = rawValue
            }

            public var description: String { self.rawValue }

            // Degraded.

            /// The last connection was lost and another one is being opened; pushes wait for it.
            public static let reconnecting = Code(rawValue: "reconnecting")
            /// APNs rejects so many device tokens that the environment, the topic or the key must be wrong.
            public static let suspectedMisconfiguration = Code(rawValue: "suspected-misconfiguration")
            /// APNs responds with 503 more often than connections may be replaced: fewer pushes are sent concurrently.
            public static let overload = Code(rawValue: "overload")

            // Failing, and degraded.

            /// APNs refuses the key or the certificate, the authentication was revoked in this process, or no provider
            /// token can be signed. Degraded while an older provider token is still usable, and while a new connection
            /// checks a first refusal.
            public static let credential = Code(rawValue: "credential")

            // Failing.

            /// Each push gets the same failure, such as a 503, so that one at a time is tried and the others wait.
            public static let outage = Code(rawValue: "outage")
            /// No connection to APNs for `pool.unavailableAfter`, 10 s by default.
            public static let unreachable = Code(rawValue: "unreachable")
            /// No connection can be made as configured: a host that does not exist, an untrusted certificate.
            public static let configuration = Code(rawValue: "configuration")
            /// A bug in this library: the client restarts after a pause.
            public static let internalFault = Code(rawValue: "internal-fault")

            /// All codes of this version.
            public static let known: [Code] = [
                .reconnecting, .suspectedMisconfiguration, .overload, .credential, .outage, .unreachable,
                .configuration, .internalFault,
            ]
        }

        /// The reason as a code.
        public let code: Code
        /// A readable message. Contains no secret.
        public let message: String

        public var description: String { "\(self.code): \(self.message)" }
    }

    /// Whether pushes can be sent now: `serving` or `degraded`.
    public var isReady: Bool {
        switch self {
        case .serving, .degraded: true
        case .starting, .failing, .stopped: false
        }
    }

    /// The reason why the client is degraded or failing; nil in all other states.
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

/// The inputs that determine a client's health.
struct HealthInputs: Sendable, Equatable {
    enum Connections: Sendable, Equatable {
        /// A connection is ready, or none is ready and none is needed.
        case available
        /// No connection is ready; one is being opened or waits to be.
        case connecting
        /// There has been no connection for `pool.unavailableAfter`, and connects fail; with the last fault.
        case unavailable(String?)
    }

    var lifecycle = ClientLifecycle.State.running
    /// The tree pauses after an escalation.
    var isPaused = false
    var isRevoked = false
    /// APNs' reason for refusing the credential.
    var credentialFault: String?
    /// The bad weather that has been reported.
    var weather: WeatherStateMachine.Cause?
    /// A refusal on one connection that another connection has not confirmed yet.
    var suspectedRefusal: String?
    /// Why no provider token can be signed; nil if signing works.
    var signingFailure: TokenError?
    /// Whether there is no usable provider token.
    var lacksProviderToken = false
    /// Whether the first provider token is being signed.
    var waitsForToken = false
    /// The reason why no connection can be opened with this configuration.
    var configurationFault: String?
    var connections = Connections.available
    /// Whether there has been a connection.
    var hasConnected = true
    var suspectsMisconfiguration = false
    var degradedConnections = 0
}

extension APNSHealth {
    /// If several states apply, the first in this order is reported: a problem that stops all pushes comes before a
    /// problem that affects some.
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
                .init(code: .internalFault, message: "a fault of the library; the client restarts after a pause")
            )
        }
        if inputs.isRevoked {
            return .failing(.init(code: .credential, message: "the authentication was revoked"))
        }
        if let refusal = inputs.credentialFault {
            return .failing(.init(code: .credential, message: "APNs refuses the credential: \(refusal)"))
        }
        if let error = inputs.signingFailure, inputs.lacksProviderToken {
            return .failing(.init(code: .credential, message: "there is no provider token: \(error)"))
        }
        if inputs.waitsForToken { return .starting }
        if inputs.connections != .available, let fault = inputs.configurationFault {
            return .failing(.init(code: .configuration, message: fault))
        }
        switch inputs.connections {
        case .unavailable(let fault):
            let text = fault.map { ": \($0)" } ?? ""
            return .failing(.init(code: .unreachable, message: "no connection to APNs for a while\(text)"))
        case .available, .connecting:
            guard let weather = inputs.weather else { break }
            return .failing(
                .init(
                    code: weather.concernsCredential ? .credential : .outage,
                    message: "each push gets the same failure (\(weather)): one at a time is tried, the others wait"
                )
            )
        }
        switch inputs.connections {
        case .unavailable:
            break
        case .connecting:
            guard inputs.hasConnected else { return .starting }
            if let refusal = inputs.suspectedRefusal {
                let message = "APNs refused the credential once; a new connection checks it: \(refusal)"
                return .degraded(.init(code: .credential, message: message))
            }
            return .degraded(.init(code: .reconnecting, message: "the last connection was lost; a new one is opening"))
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
        if let error = inputs.signingFailure {
            let message =
                "the provider token cannot be renewed; the current one serves until it is "
                + "\(TokenPolicy.usableMinutes) minutes old: \(error)"
            return .degraded(.init(code: .credential, message: message))
        }
        if inputs.degradedConnections > 0 {
            return .degraded(.init(code: .overload, message: "APNs responds with 503: fewer pushes are sent at once"))
        }
        return .serving
    }
}
