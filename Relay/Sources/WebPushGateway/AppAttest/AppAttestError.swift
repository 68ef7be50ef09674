/// Refused evidence of App Attest: a code, and a text for the app's developer.
public struct AppAttestError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The kind of error. Later versions may add codes.
    public struct Code: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
        public let rawValue: String

        public init(rawValue: String) {
            self.rawValue = rawValue
        }

        public var description: String { self.rawValue }

        /// The evidence is not what App Attest produces.
        public static let malformed = Code(rawValue: "malformed")
        /// The certificates do not lead to the root, or are not valid now.
        public static let untrusted = Code(rawValue: "untrusted")
        /// The evidence was made for other client data: another challenge, or another request.
        public static let otherClientData = Code(rawValue: "otherClientData")
        /// The evidence belongs to another key.
        public static let otherKey = Code(rawValue: "otherKey")
        /// The evidence was made by another app.
        public static let otherApp = Code(rawValue: "otherApp")
        /// The key belongs to the other environment of App Attest.
        public static let otherEnvironment = Code(rawValue: "otherEnvironment")
        /// The counter is not greater than the stored one, so the assertion is a repetition.
        public static let repeatedAssertion = Code(rawValue: "repeatedAssertion")
        /// The challenge was not issued here.
        public static let unknownChallenge = Code(rawValue: "unknownChallenge")
        /// The challenge has expired.
        public static let expiredChallenge = Code(rawValue: "expiredChallenge")
        /// The key has used the challenge before.
        public static let repeatedChallenge = Code(rawValue: "repeatedChallenge")
        /// The key has used too many challenges in the last minutes.
        public static let tooManyRequests = Code(rawValue: "tooManyRequests")
        /// The root certificate cannot be read.
        public static let invalidRoot = Code(rawValue: "invalidRoot")
    }

    public var code: Code
    /// The fault and the remedy. It has no part of the evidence.
    public var message: String

    public init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    public var description: String { self.message }

    static func malformed(_ message: String) -> AppAttestError {
        AppAttestError(.malformed, "The evidence is not that of App Attest: \(message).")
    }
}
