import APNSTransport
import SupervisedPool

/// How the end of a connection, or a GOAWAY, affects the next connect.
enum ConnectionFault: Equatable {
    /// A network or server failure: connect again after the backoff.
    case network
    /// The connection received no data any more. Another connection may work at once.
    case lostPath
    /// Connecting again is pointless until a setting, a file or a certificate changes. The next connect is made no
    /// sooner than after `holdOff`.
    case configuration(holdOff: Duration)

    /// - Parameter refuseCertificate: records that the peer refused the client certificate. Returns how long
    ///   connections should wait. Returns nil while only one connection was refused, because then a single server may
    ///   be at fault.
    init(_ error: WireError, refuseCertificate: () -> Duration?) {
        switch error.code {
        case .pingTimeout: self = .lostPath
        case .clientCertificateRefused: self = refuseCertificate().map { .configuration(holdOff: $0) } ?? .network
        default: self = error.isConfiguration ? .configuration(holdOff: .zero) : .network
        }
    }

    /// The fault as the pool gets it; nil if there is no error.
    func report(_ error: WireError?) -> PoolFault? {
        error.map { PoolFault(description: $0.description, isConfiguration: self.isConfiguration, underlying: $0) }
    }

    var isConfiguration: Bool {
        if case .configuration = self { true } else { false }
    }
}
