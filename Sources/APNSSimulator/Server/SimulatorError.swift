/// Why a call to a simulator failed.
public struct SimulatorError: Error, Sendable, Hashable, CustomStringConvertible {
    /// What went wrong. Later versions may add codes.
    public struct Code: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
        public let rawValue: String

        public init(rawValue: String) {
            self.rawValue = rawValue
        }

        public var description: String { self.rawValue }

        /// The simulator cannot listen on the address, or could not create a certificate.
        public static let startFailed = Code(rawValue: "start-failed")
        /// A key is not on the curve P-256.
        public static let keyUnusable = Code(rawValue: "key-unusable")
        /// The condition was not met in time.
        public static let timedOut = Code(rawValue: "timed-out")
        /// The waiting task was cancelled.
        public static let cancelled = Code(rawValue: "cancelled")
    }

    /// What went wrong.
    public let code: Code
    /// A description for people.
    public let message: String

    public var description: String { "\(self.code): \(self.message)" }
}
