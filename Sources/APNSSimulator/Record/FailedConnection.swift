internal import APNSTransport

/// Connections that ended before the client could send a request, all of them in the same way.
public struct FailedConnection: Sendable, Hashable {
    /// How a connection failed.
    public struct Cause: RawRepresentable, Sendable, Hashable, Codable, CustomStringConvertible {
        public let rawValue: String

        public init(rawValue: String) {
            self.rawValue = rawValue
        }

        public var description: String { self.rawValue }

        /// The client does not trust the simulator's certificate authority.
        public static let untrusted = Cause(rawValue: "untrusted")
        /// The client connects to a name that the simulator's certificate does not have.
        public static let wrongHost = Cause(rawValue: "wrong-host")
        /// The client takes the certificate for expired.
        public static let expired = Cause(rawValue: "expired")
        /// The client sent HTTP without TLS.
        public static let plainHTTP = Cause(rawValue: "plain-http")
        /// The client sent bytes that are not TLS.
        public static let notTLS = Cause(rawValue: "not-tls")
        /// The client does not offer HTTP/2 (`h2` in ALPN).
        public static let noHTTP2 = Cause(rawValue: "no-http2")
        /// TLS was established, and the client did not speak HTTP/2.
        public static let notHTTP2 = Cause(rawValue: "not-http2")
        /// Client and simulator have no TLS version or cipher suite in common.
        public static let oldTLS = Cause(rawValue: "old-tls")
        /// The client ended TLS with another alert.
        public static let alert = Cause(rawValue: "alert")
        /// The client has no certificate, and the simulator asks for one.
        public static let certificateMissing = Cause(rawValue: "certificate-missing")
        /// The simulator does not accept the client's certificate.
        public static let certificateRefused = Cause(rawValue: "certificate-refused")
        /// The client closed the connection during the TLS handshake, without an alert.
        public static let closedInHandshake = Cause(rawValue: "closed-in-handshake")
        /// The client closed the connection after the TLS handshake, and sent nothing.
        public static let closedAfterHandshake = Cause(rawValue: "closed-after-handshake")
        /// Another error of TLS or HTTP/2.
        public static let other = Cause(rawValue: "other")
    }

    /// How they failed.
    public var cause: Cause
    /// What happened, in one sentence.
    public var message: String
    /// What to change, in one or two sentences. It names the file of the certificate authority `ca.pem`.
    public var remedy: String
    /// The name that the client connected to, or the address if it gave no name.
    public var host: String?
    /// The kinds of the faults that applied to them, by their names in scripts.
    public var faults: [String]
    /// How many there were.
    public internal(set) var count = 1
    /// The number of the last one, from 1, in the order of acceptance.
    public internal(set) var connection: Int
    /// The IP address of the last client.
    public internal(set) var client: String?
    /// When the first one failed, in milliseconds since 1970.
    public internal(set) var firstMilliseconds: Int64
    /// When the last one failed, in milliseconds since 1970.
    public internal(set) var lastMilliseconds: Int64

    /// The remedy with the path of the certificate authority's file.
    package func remedy(caFile: String) -> String { self.remedy.replacing("ca.pem", with: caFile) }

    /// Whether another one belongs to this group.
    func isAlike(_ other: FailedConnection) -> Bool {
        self.message == other.message && self.host == other.host && self.faults == other.faults
    }
}

extension FailedConnection {
    /// - Parameter names: The names in the simulator's certificate.
    init(
        _ failure: FailedEntrance,
        names: [String],
        faults: [String],
        connection: Int,
        milliseconds: Int64
    ) {
        let host = failure.host ?? names.first ?? ""
        let isNamed = names.contains { Self.covers($0, host) }
        self.cause = Cause(failure.cause, isNamed: isNamed)
        let (message, remedy) = self.cause.explanation
        self.message =
            message.replacing("HOST", with: host).replacing("NAMES", with: names.joined(separator: ", "))
            + (failure.cause.detail.map { " (\($0))." } ?? ".")
        self.remedy =
            faults.isEmpty
            ? remedy.replacing("HOST", with: host).replacing("NAME", with: names.first ?? "localhost")
            : "The fault \(faults.joined(separator: ", ")) applied to this connection."
        self.host = failure.host
        self.faults = faults
        self.connection = connection
        self.client = failure.client
        self.firstMilliseconds = milliseconds
        self.lastMilliseconds = milliseconds
    }

    /// Whether a name of a certificate covers a host (RFC 9525, section 6.3).
    private static func covers(_ name: String, _ host: String) -> Bool {
        let (name, host) = (name.lowercased(), host.lowercased())
        if name.hasPrefix("*."), let dot = host.firstIndex(of: ".") { return host[dot...] == name.dropFirst() }
        return name == host
    }
}

extension FailedEntrance.Cause {
    /// What the peers said about it; nil if they said nothing.
    fileprivate var detail: String? {
        switch self {
        case .alert(let number):
            let name = TLSAlertName.all.first { $0.value == number }?.key.replacing("_", with: " ")
            return "TLS alert \(number)" + (name.map { ", \($0)" } ?? "")
        case .clientCertificateRefused(let text), .other(let text): return text
        default: return nil
        }
    }
}

extension FailedConnection.Cause {
    /// - Parameter isNamed: Whether the certificate has the name that the client connected to.
    fileprivate init(_ cause: FailedEntrance.Cause, isNamed: Bool) {
        switch cause {
        case .plainHTTP: self = .plainHTTP
        case .notTLS: self = .notTLS
        case .noHTTP2, .alert(120): self = .noHTTP2
        case .otherProtocol: self = .notHTTP2
        case .oldTLS: self = .oldTLS
        case .clientCertificateMissing: self = .certificateMissing
        case .clientCertificateRefused: self = .certificateRefused
        // bad_certificate, certificate_unknown, unknown_ca: each library has its own for the same fault.
        case .alert(42), .alert(46), .alert(48): self = isNamed ? .untrusted : .wrongHost
        case .alert(45): self = .expired
        case .alert: self = .alert
        case .closed(let isEstablished):
            self = !isNamed ? .wrongHost : isEstablished ? .closedAfterHandshake : .closedInHandshake
        case .other: self = .other
        }
    }

    private static let trust =
        "Let the client trust ca.pem. Node reads it from NODE_EXTRA_CA_CERTS, and Python, Ruby and Go on Linux from "
        + "SSL_CERT_FILE. Java needs it in a trust store. Do not turn verification off: APNs' certificate must be verified."
    private static let useHTTP2 =
        "APNs speaks only HTTP/2. Turn HTTP/2 on in the client, for example with --http2 in curl or http2=True in httpx."
    private static let askClient = "The client's own error says more."

    /// The message without its full stop, and the remedy. HOST, NAME and NAMES are placeholders.
    fileprivate var explanation: (message: String, remedy: String) {
        switch self {
        case .untrusted: ("The client does not trust the simulator's certificate", Self.trust)
        case .wrongHost:
            (
                "The client connects to HOST, and the simulator's certificate is for NAMES",
                "Connect to NAME, or start the simulator with --name HOST. The client must also trust ca.pem."
            )
        case .expired: ("The client takes the simulator's certificate for expired", "Check the client's clock.")
        case .plainHTTP:
            ("The client sent HTTP without TLS", "Use https:// in the client's URL, or turn TLS on.")
        case .notTLS:
            (
                "The client sent something that is not TLS",
                "Turn TLS on in the client. APNs accepts no HTTP/2 without TLS (h2c)."
            )
        case .noHTTP2: ("The client does not offer h2 in ALPN, only another protocol such as HTTP/1.1", Self.useHTTP2)
        case .notHTTP2: ("The client sent something other than HTTP/2 after the TLS handshake", Self.useHTTP2)
        case .oldTLS:
            (
                "Client and simulator have no TLS version or cipher suite in common",
                "Use TLS 1.2 or 1.3, with ECDHE and AES-GCM or ChaCha20."
            )
        case .certificateMissing:
            (
                "The client sent no certificate, and this simulator asks for one",
                "Give the client a certificate of this simulator (makeClientCertificate)."
            )
        case .certificateRefused:
            (
                "The client's certificate is not accepted",
                "Use a valid certificate of this simulator (makeClientCertificate): it accepts no others."
            )
        case .closedInHandshake:
            (
                "The client closed the connection during the TLS handshake, without an alert",
                "Most clients that do so do not trust the simulator's certificate. \(Self.trust)"
            )
        case .closedAfterHandshake:
            (
                "The client closed the connection after the TLS handshake, and sent nothing",
                "The client's own error says why. Often it does not trust ca.pem, or does not find h2 in ALPN."
            )
        case .alert: ("The client ended TLS with an alert", Self.askClient)
        default: ("The connection failed", Self.askClient)
        }
    }
}

extension Ledger {
    /// The number of groups that are kept: a hostile client may ask for any number of host names.
    private static let groupLimit = 20

    /// Counts a failed connection, and returns its group; nil if there are too many groups.
    mutating func count(_ failed: FailedConnection) -> FailedConnection? {
        self.connectionsFailed += 1
        guard let index = self.failedConnections.firstIndex(where: { $0.isAlike(failed) }) else {
            guard self.failedConnections.count < Self.groupLimit else { return nil }
            self.failedConnections.append(failed)
            return failed
        }
        self.failedConnections[index].count += 1
        self.failedConnections[index].connection = failed.connection
        self.failedConnections[index].client = failed.client
        self.failedConnections[index].lastMilliseconds = failed.lastMilliseconds
        return self.failedConnections[index]
    }
}
