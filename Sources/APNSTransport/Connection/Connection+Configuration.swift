package import NIOCore

extension Connection {
    package struct Configuration: Sendable {
        /// The host to look up, connect to and verify.
        package var host: String
        package var port: Int
        package var tls: TLSContext
        /// `nil` for a direct connection. Otherwise the connection looks up and connects to the proxy, and the proxy
        /// looks up the host.
        package var proxy: ProxyEndpoint?
        /// Looks up the host.
        package var nameResolver = NameResolver.system
        /// See `HTTP2ClientSession.Configuration`.
        package var variableNames: [String]
        /// See `HTTP2ClientSession.Configuration`.
        package var responseFilter: ResponseFilter?
        /// See `HTTP2ClientSession.Configuration`.
        package var responseBodyLimit = StreamTable.bodyLimit
        /// The time for the look-up, TCP, the proxy's tunnel, TLS and the peer's first SETTINGS together.
        package var connectTimeout = TimeAmount.seconds(10)
        /// The clock for all deadlines and timers.
        package var clock: any LoopClock = EventLoopClock()
        /// When PINGs are sent, and how long their acknowledgements may take.
        package var pathCheck = PathCheck.Limits()
        /// Whether the handshake goes on with an untrusted certificate, and is reported. Nothing confidential may be sent on
        /// such a connection.
        package var toleratesDistrust = false
        /// For tests of stream id exhaustion: the id of the first stream, an odd number.
        package var firstStreamID: Int32?

        package init(host: String, port: Int, tls: TLSContext, variableNames: [String]) {
            self.host = host
            self.port = port
            self.tls = tls
            self.variableNames = variableNames
        }
    }
}
