/// Why the API cannot be served.
struct RelayAPIError: Error, Sendable, Hashable, CustomStringConvertible {
    enum Code: String, Sendable {
        /// The server would be reachable from other machines without tokens.
        case callersMissing
        /// Two endpoints have the same method and path.
        case pageInvalid
        /// Another program listens at the address.
        case addressInUse
        /// A file for TLS is missing, cannot be read, or does not have the expected contents.
        case tlsFileInvalid
    }

    var code: Code
    /// The fault and the remedy, with the name of the file.
    var message: String

    var description: String { self.message }
}
