package import HTTP2Wire
public import NIOCore

#if canImport(FoundationEssentials)
    internal import FoundationEssentials
#else
    internal import Foundation
#endif

extension Simulator {
    /// How a simulator is set up. Every part has a default that serves tests.
    public struct Configuration: Sendable {
        /// The address to listen on. Default `127.0.0.1`.
        public var host = "127.0.0.1"
        /// The port to listen on. Default 0: any free one, see `Simulator.port`.
        public var port = 0
        /// Host names and IP addresses that the server's certificate is made for.
        public var certificateNames = ["localhost", "127.0.0.1", "::1"]
        /// The certificate authority of an earlier simulator, so that its clients trust this one, too. Default nil: a
        /// new one.
        package var certificateAuthority: TLSIdentity?
        /// Seconds since 1970, for the age of provider tokens. Default: the system's clock.
        public var clock: @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970) }
        /// Which provider tokens are good. Default `anyProviderToken`.
        public var credential = Credential.anyProviderToken
        /// Whether a second token of one key within 20 minutes is refused with 429 `TooManyProviderTokenUpdates`.
        /// Default false.
        public var limitsProviderTokenUpdates = false
        /// The bundle IDs that pushes may go to, others get `TopicDisallowed`. Default nil: all.
        public var topics: Set<String>?
        /// The most broadcast channels of an app. Default 10,000, as APNs has it.
        public var maximumChannels = 10_000
        /// The least time between two broadcasts to one channel; sooner ones get 429 `TooManyRequests`. Default nil: none.
        public var broadcastSpacing: Duration?
        /// SETTINGS_MAX_CONCURRENT_STREAMS of a new connection, until its first good provider token. Default 1, as
        /// APNs has it. Without credentials (`Credential.none`) connections begin with `maxConcurrentStreams`.
        public var initialMaxConcurrentStreams: UInt32 = 1
        /// SETTINGS_MAX_CONCURRENT_STREAMS after the first good provider token. Default 1000, as APNs has it.
        public var maxConcurrentStreams: UInt32 = 1000
        /// How many bytes of a body a client may send at once on a stream. Default nil: 65,535, as APNs has it. A
        /// window smaller than the payload makes early responses early.
        public var initialWindowSize: UInt32?
        /// Whether more than 1000 quick RST_STREAM (and 33 a second after them) end a connection, which is what
        /// servers built on nghttp2 do. Default false.
        public var limitsStreamResets = false
        /// In development, accepted pushes get an `apns-unique-id`. Default `development`.
        public var environment = Environment.development
        /// How long every response is kept back, as a stand-in for the network's round trip. Default zero.
        public var responseDelay = Duration.zero
        /// What the ledger keeps. Default `pushes`.
        public var recording = Recording.pushes
        /// Whether the ledger keeps every push. Set to false it counts only.
        public var recordsPushes: Bool {
            get { self.recording == .pushes || self.recording == .pushesWithoutPayload }
            set { self.recording = newValue ? .pushes : .counts }
        }
        /// Whether answers carry a `date` (RFC 9110, section 6.6.1). Default true.
        public var sendsDate = true
        /// By how many seconds the simulator's clock is off, in `date` and in the age of provider tokens. Default 0.
        public var clockOffset: Int64 = 0
        /// Where connections live. Default nil: SwiftNIO's singleton group. The simulator shuts no group down.
        public var eventLoopGroup: (any EventLoopGroup)?
        /// What the faults' probabilities and the ids it makes up are drawn from: the same seed, script and order of
        /// requests give the same faults. A script's own seed comes first for its faults. Default 1.
        public var seed: UInt64 = 1
        /// The faults it starts with. Default none.
        public var faults = FaultScript()

        /// All settings with their defaults.
        public init() {}
    }

    /// What the ledger keeps of pushes.
    public enum Recording: Sendable, Hashable {
        /// Everything. The memory grows with each push and its payload.
        case pushes
        /// Everything but the payloads.
        case pushesWithoutPayload
        /// How often each `apns-id` was processed: a million need about 50 MiB.
        case ids
        /// Counts only.
        case counts
    }

    /// The clock's offset is between minus and plus so many seconds, about 30 years.
    static let clockOffsetLimit: Int64 = 1_000_000_000

    /// What counts as a good provider token.
    public enum Credential: Sendable {
        /// Any well-formed ES256 token of the right age with a key id and a team id of ten letters and digits. Only
        /// the signatures of keys that were added are checked.
        case anyProviderToken
        /// Tokens signed by one of these keys; see also `Simulator.addKey`.
        case keys([Key])
        /// Nothing is asked for.
        case none
        /// The connection must show a client certificate of the simulator's own authority: see
        /// `Simulator.makeClientCertificate`. TLS refuses others, and none, by an alert. No provider token is asked for.
        case clientCertificate

        /// Whether requests must carry a provider token.
        var asksForToken: Bool {
            switch self {
            case .anyProviderToken, .keys: true
            case .none, .clientCertificate: false
            }
        }
    }

    /// A key as APNs knows it.
    public struct Key: Sendable {
        /// The key's id, ten letters and digits.
        public var keyID: String
        /// The team that its tokens must name.
        public var teamID: String
        let publicKey: ES256PublicKey

        /// - Parameters:
        ///   - keyID: the key's id.
        ///   - teamID: the team that its tokens must name.
        ///   - publicKeyPEM: what the tokens' signatures are checked with: a public key on the curve P-256 in PEM form.
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

        /// What APNs would know of a made-up key.
        public init(_ key: SimulatedKey) {
            self.keyID = key.keyID
            self.teamID = key.teamID
            self.publicKey = key.publicKey
        }
    }

    /// Which of Apple's two environments is played.
    public enum Environment: String, Sendable, Hashable, Codable {
        /// Accepted pushes get an `apns-unique-id`.
        case development
        /// They get none.
        case production
    }

    /// Some of the connections that are open.
    public enum ConnectionSelection: Sendable, Hashable {
        /// Every one.
        case all
        /// Those without an open stream.
        case idle
        /// The one with this number, counted from 1 in the order in which they were accepted.
        case number(Int)
    }
}
