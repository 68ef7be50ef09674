import APNSModel

extension APNSClientConfiguration {
    /// Optional details in log lines and spans.
    public struct Logging: Sendable, Hashable {
        /// Whether log lines and spans identify the device of a push.
        public struct DeviceTokens: Sendable, Hashable {
            fileprivate enum Kind { case never, shortened }
            fileprivate let kind: Kind
            /// No device token in any form.
            public static let never = DeviceTokens(kind: .never)
            /// The first four and the last four digits: enough to find a device, too few to send to it. For a device
            /// token of 16 digits or fewer, only the first two digits.
            public static let shortened = DeviceTokens(kind: .shortened)
        }

        /// Device tokens in the `debug` lines about pushes that were not accepted, and in the spans of pushes. Default
        /// `never`.
        public var deviceTokens: DeviceTokens

        /// - Parameter deviceTokens: Whether lines and spans about pushes identify the device.
        public init(deviceTokens: DeviceTokens = .never) {
            self.deviceTokens = deviceTokens
        }

        /// The logged form of a device token; nil: it is not logged.
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
