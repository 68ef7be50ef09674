/// Why a simulator could not do what it was asked.
public struct SimulatorError: Error, Sendable, Hashable, CustomStringConvertible {
    /// What went wrong. Later versions may add codes.
    public struct Code: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
        public let rawValue: String

        public init(rawValue: String) {
            self.rawValue = rawValue
        }

        public var description: String { self.rawValue }

        /// The address cannot be listened on, or no certificate could be made.
        public static let startFailed = Code(rawValue: "start-failed")
        /// A key is not one on the curve P-256.
        public static let keyUnusable = Code(rawValue: "key-unusable")
        /// What was waited for did not come in time.
        public static let timedOut = Code(rawValue: "timed-out")
        /// The waiting task was cancelled.
        public static let cancelled = Code(rawValue: "cancelled")
    }

    /// What went wrong.
    public let code: Code
    /// For people.
    public let message: String

    public var description: String { "\(self.code): \(self.message)" }
}
