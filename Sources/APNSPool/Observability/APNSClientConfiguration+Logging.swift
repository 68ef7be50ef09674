import APNSModel

extension APNSClientConfiguration {
    /// What log lines and spans say beyond what they always do.
    public struct Logging: Sendable, Hashable {
        /// Whether they name the device that a push was for.
        public struct DeviceTokens: Sendable, Hashable {
            fileprivate enum Kind { case never, shortened }
            fileprivate let kind: Kind
            /// No device token, in no form.
            public static let never = DeviceTokens(kind: .never)
            /// The first four digits and the last four: enough to find a device, too little to address it. Of a device
            /// token of 16 digits or fewer only the first two.
            public static let shortened = DeviceTokens(kind: .shortened)
        }

        /// In the `debug` lines about pushes that were not accepted, and in the spans of pushes. Default `never`.
        public var deviceTokens: DeviceTokens

        /// - Parameter deviceTokens: whether lines and spans about pushes name the device.
        public init(deviceTokens: DeviceTokens = .never) {
            self.deviceTokens = deviceTokens
        }

        /// What is said of a device token; nil: nothing.
        func text(of token: DeviceToken) -> String? {
            switch self.deviceTokens.kind {
            case .never: return nil
            case .shortened:
                let digits = token.hexadecimal
                guard digits.utf8.count > 16 else { return "\(digits.prefix(2))…" }
                return "\(digits.prefix(4))…\(digits.suffix(4))"
            }
        }
    }
}
