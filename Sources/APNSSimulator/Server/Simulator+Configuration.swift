package import APNSTransport
public import NIOCore

#if canImport(FoundationEssentials)
    internal import FoundationEssentials
#else
    internal import Foundation
#endif

extension Simulator {
    /// The settings of a simulator. Every setting has a default that suits tests.
    public struct Configuration: Sendable {
        /// The address to listen on. Default `127.0.0.1`.
        public var host = "127.0.0.1"
        /// The port to listen on. Default 0: any free port, see `Simulator.port`.
        public var port = 0
        /// Host names and IP addresses in the server's certificate.
        public var certificateNames = ["localhost", "127.0.0.1", "::1"]
        /// The certificate authority of an earlier simulator, so that its clients also trust this one. Default nil: a
        /// new one.
        package var certificateAuthority: TLSIdentity?
        /// Returns seconds since 1970, for the age of provider tokens. Default: the system's clock.
        public var clock: @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970) }
        /// Which provider tokens are accepted. Default `anyProviderToken`.
        public var credential = Credential.anyProviderToken
        /// Whether a second token of one key within 20 minutes is rejected with 429 `TooManyProviderTokenUpdates`.
        /// Default false. It can change while the simulator runs: `Simulator.limitsProviderTokenUpdates`.
        public var limitsProviderTokenUpdates = false
        /// What APNs stores for virtual devices that are offline. Default `latest`. It can change while the simulator
        /// runs: `Simulator.offlineStorage`.
        public var offlineStorage = OfflineStorage.latest
        /// The allowed bundle IDs; others get `TopicDisallowed`. Default nil: all.
        public var topics: Set<String>?
        /// The most broadcast channels of an app. Default 10,000, as in APNs.
        public var maximumChannels = 10_000
        /// The shortest time between two broadcasts to one channel; earlier ones get 429 `TooManyRequests`. Default
        /// nil: none.
        public var broadcastSpacing: Duration?
        /// SETTINGS_MAX_CONCURRENT_STREAMS of a new connection, until its first valid provider token. Default 1, as in
        /// APNs. Without credentials (`Credential.none`) connections start with `maxConcurrentStreams`.
        public var initialMaxConcurrentStreams: UInt32 = 1
        /// SETTINGS_MAX_CONCURRENT_STREAMS after the first valid provider token. Default 1000, as in APNs.
        public var maxConcurrentStreams: UInt32 = 1000
        /// How many bytes of a body a client may send at once on a stream. Default nil: 65,535, as in APNs. Early
        /// responses need a window smaller than the payload.
        public var initialWindowSize: UInt32?
        /// Whether more than 1000 RST_STREAM frames in quick succession (and 33 per second after them) end a
        /// connection, as in servers built on nghttp2. Default false.
        public var limitsStreamResets = false
        /// The simulated environment. In development, accepted pushes get an `apns-unique-id`. Default `development`.
        public var environment = Environment.development
        /// The delay of every response, which simulates the network's round trip. Default zero.
        public var responseDelay = Duration.zero
        /// What the ledger records. Default `pushes`.
        public var recording = Recording.pushes
        /// How many pushes the ledger keeps, and how many broadcasts: above a tenth more, the oldest are dropped.
        /// Default nil: all. At least 1.
        public var keep: Int?
        /// Whether responses have a `date` (RFC 9110, section 6.6.1). Default true.
        public var sendsDate = true
        /// The offset of the simulator's clock in seconds. It affects `date` and the age of provider tokens. Default 0.
        public var clockOffset: Int64 = 0
        /// The event loops of the connections. Default nil: SwiftNIO's singleton group. The simulator never shuts a
        /// group down.
        public var eventLoopGroup: (any EventLoopGroup)?
        /// Called when a connection ends before the client could send a request, on the connection's event loop, with
        /// the group that this failure belongs to. Default nil.
        public var onFailedConnection: (@Sendable (FailedConnection) -> Void)?
        /// The seed for the faults' probabilities and for generated ids: with equal seed, script and order of requests,
        /// the faults are equal. A script's own seed takes precedence for its faults. Default 1.
        public var seed: UInt64 = 1
        /// The initial faults. Default none.
        public var faults = FaultScript()

        /// Creates the default settings.
        public init() {}
    }

    /// What the ledger records of pushes.
    public enum Recording: Sendable, Hashable {
        /// Everything. Memory use grows with each push and its payload.
        case pushes
        /// Everything except payloads.
        case pushesWithoutPayload
        /// How often each `apns-id` was processed: one million ids need about 50 MiB.
        case ids
        /// Only counts.
        case counts
    }

    /// The largest offset of the clock in seconds, in either direction: about 30 years.
    static let clockOffsetLimit: Int64 = 1_000_000_000

    /// Which credentials are accepted.
    public enum Credential: Sendable {
        /// Any well-formed ES256 token of valid age with a key id and a team id of ten letters and digits. Signatures
        /// are checked only for keys that were added.
        case anyProviderToken
        /// Tokens signed by one of these keys; see also `Simulator.addKey`.
        case keys([Key])
        /// No credential is required.
        case none
        /// Connections must present a client certificate from the simulator's own authority: see
        /// `Simulator.makeClientCertificate`. TLS rejects a missing or foreign certificate with an alert. No provider
        /// token is required.
        case clientCertificate

        /// Whether requests must carry a provider token.
        var asksForToken: Bool {
            switch self {
            case .anyProviderToken, .keys: true
            case .none, .clientCertificate: false
            }
        }
    }

    /// A key that the simulator accepts.
    public struct Key: Sendable {
        /// The key's id, ten letters and digits.
        public var keyID: String
        /// The team id that its tokens must contain.
        public var teamID: String
        let publicKey: ES256PublicKey

        /// - Parameters:
        ///   - keyID: the key's id.
        ///   - teamID: the team id that its tokens must contain.
        ///   - publicKeyPEM: the public key for the tokens' signatures, on the curve P-256 in PEM form.
        /// - Throws: `SimulatorError.Code.keyUnusable`.
        public init(keyID: String, teamID: String, publicKeyPEM: String) throws(SimulatorError) {
            self.keyID = keyID
            self.teamID = teamID
            do throws(ES256KeyFault) {
                self.publicKey = try ES256PublicKey(pem: publicKeyPEM)
            } catch {
                let message: String
                switch error {
                case .wrongAlgorithm(let name): message = "It is a key of the type \(name)."
                case .wrongCurve(let name): message = "It is an EC key on the curve \(name)."
                case .encrypted: message = "It is encrypted."
                case .unreadable(let detail), .inconsistent(let detail): message = "OpenSSL cannot read it: \(detail)."
                }
                throw SimulatorError(
                    code: .keyUnusable,
                    message: "publicKeyPEM must be the PEM text of a public key on the curve P-256. \(message)"
                )
            }
        }

        /// The public part of a generated key.
        public init(_ key: SimulatedKey) {
            self.keyID = key.keyID
            self.teamID = key.teamID
            self.publicKey = key.publicKey
        }
    }

    /// The simulated environment of Apple's two.
    public enum Environment: String, Sendable, Hashable, Codable {
        /// Accepted pushes get an `apns-unique-id`.
        case development
        /// Accepted pushes get no `apns-unique-id`.
        case production
    }

    /// A selection of the open connections.
    public enum ConnectionSelection: Sendable, Hashable {
        /// All open connections.
        case all
        /// Connections without an open stream.
        case idle
        /// The connection with this number, counted from 1 in the order of acceptance.
        case number(Int)
    }
}
