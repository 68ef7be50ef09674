public import NIOCore

// How people who know APNSwift try to create a client. All are unavailable, so that the compiler names the replacement of
// each, and no body runs. `APNSModel/Sending/APNSwiftNotification.swift` has the calls.

extension APNSClient {
    /// APNSwift's name of `init(configuration:)`.
    @available(*, unavailable, renamed: "init(configuration:)", message: "then call run(), start() or withAPNSClient")
    public convenience init(
        configuration: APNSClientConfiguration,
        eventLoopGroupProvider: NIOEventLoopGroupProvider,
        responseDecoder: some Any,
        requestEncoder: some Any
    ) { fatalError() }
}

extension APNSClientConfiguration {
    /// APNSwift's name of `init(authentication:environment:)`.
    @available(*, unavailable, renamed: "init(authentication:environment:)")
    public init(authenticationMethod: APNSAuthentication, environment: APNSEnvironment) { fatalError() }
}

extension APNSAuthentication {
    /// APNSwift's name of a provider token.
    @available(
        *,
        unavailable,
        renamed: "token(privateKeyPEM:keyID:teamID:)",
        message: "pass the text of the .p8 file, or use token(keyFile:teamID:)"
    )
    public static func jwt(
        privateKey: some Any,
        keyIdentifier: String,
        teamIdentifier: String
    ) -> APNSAuthentication { fatalError() }

    /// APNSwift's name of a client certificate.
    @available(*, unavailable, renamed: "certificate(certificatePEM:privateKeyPEM:passphrase:)")
    public static func tls(privateKey: some Any, certificateChain: [some Any]) -> APNSAuthentication { fatalError() }
}

extension APNSEnvironment {
    /// APNSwift's name of `custom(host:port:)`.
    @available(*, unavailable, renamed: "custom(host:port:)")
    public static func custom(url: String, port: Int = 443) -> APNSEnvironment { fatalError() }
}
