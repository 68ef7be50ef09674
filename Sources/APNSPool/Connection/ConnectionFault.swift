import HTTP2Wire

/// What the end of a session, or a GOAWAY, means for the next connect.
enum ConnectionFault: Equatable {
    /// Trouble of the network or of the server: connect again after the backoff.
    case network
    /// Nothing came back on this connection any more. Another one may get through at once.
    case lostPath
    /// Another connect is pointless until somebody changes a setting, a file or a certificate, and in no case sooner than
    /// after `holdOff`.
    case configuration(holdOff: Duration)
    /// A rule of our own was broken: the worker must end, and its supervisor counts it.
    case brokenInvariant

    /// - Parameter refuseCertificate: records that the peer refused our certificate. Returns how long connections should
    ///   stay away, or nil while only one connection says so: then it may be the fault of a single server.
    init(_ error: WireError, refuseCertificate: () -> Duration?) {
        switch error.code {
        case .invariantBroken: self = .brokenInvariant
        case .pingTimeout: self = .lostPath
        case .clientCertificateRefused: self = refuseCertificate().map { .configuration(holdOff: $0) } ?? .network
        default: self = error.isConfiguration ? .configuration(holdOff: .zero) : .network
        }
    }

    var isConfiguration: Bool {
        if case .configuration = self { true } else { false }
    }
}
