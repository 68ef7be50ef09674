#if !(canImport(CryptoKit) || Sealing)
    // Programs without the trait get these declarations' messages instead of "cannot find in scope".

    /// Seals payloads. Requires the trait `Sealing` on platforms without CryptoKit.
    @available(
        *,
        unavailable,
        message: "APNSSealing needs swift-crypto here: depend on swift-apns-pool with traits: [\"Sealing\"]"
    )
    public enum PayloadSealer {}

    /// Opens payloads. Requires the trait `Sealing` on platforms without CryptoKit.
    @available(
        *,
        unavailable,
        message: "APNSSealing needs swift-crypto here: depend on swift-apns-pool with traits: [\"Sealing\"]"
    )
    public enum PayloadOpener {}

    /// A key. Requires the trait `Sealing` on platforms without CryptoKit.
    @available(
        *,
        unavailable,
        message: "APNSSealing needs swift-crypto here: depend on swift-apns-pool with traits: [\"Sealing\"]"
    )
    public enum SealingKey {}

    /// A key pair. Requires the trait `Sealing` on platforms without CryptoKit.
    @available(
        *,
        unavailable,
        message: "APNSSealing needs swift-crypto here: depend on swift-apns-pool with traits: [\"Sealing\"]"
    )
    public enum SealingKeyPair {}

    /// The keys of a Web Push subscription. Requires the trait `Sealing` on platforms without CryptoKit.
    @available(
        *,
        unavailable,
        message: "APNSSealing needs swift-crypto here: depend on swift-apns-pool with traits: [\"Sealing\"]"
    )
    public enum WebPushKeys {}

    /// Opens Web Push messages. Requires the trait `Sealing` on platforms without CryptoKit.
    @available(
        *,
        unavailable,
        message: "APNSSealing needs swift-crypto here: depend on swift-apns-pool with traits: [\"Sealing\"]"
    )
    public enum WebPushOpener {}
#endif
