#if !(canImport(CryptoKit) || Sealing)
    // What a program without the trait meets instead of "cannot find in scope".

    /// Seals payloads; needs the trait `Sealing` where there is no CryptoKit.
    @available(
        *,
        unavailable,
        message: "APNSSealing needs swift-crypto here: depend on swift-apns-pool with traits: [\"Sealing\"]"
    )
    public enum PayloadSealer {}

    /// Opens payloads; needs the trait `Sealing` where there is no CryptoKit.
    @available(
        *,
        unavailable,
        message: "APNSSealing needs swift-crypto here: depend on swift-apns-pool with traits: [\"Sealing\"]"
    )
    public enum PayloadOpener {}

    /// A key; needs the trait `Sealing` where there is no CryptoKit.
    @available(
        *,
        unavailable,
        message: "APNSSealing needs swift-crypto here: depend on swift-apns-pool with traits: [\"Sealing\"]"
    )
    public enum SealingKey {}

    /// A key pair; needs the trait `Sealing` where there is no CryptoKit.
    @available(
        *,
        unavailable,
        message: "APNSSealing needs swift-crypto here: depend on swift-apns-pool with traits: [\"Sealing\"]"
    )
    public enum SealingKeyPair {}
#endif
