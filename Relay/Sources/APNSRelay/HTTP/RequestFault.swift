/// Why the relay does not wait for the rest of a request's body. ``ConnectionHandler`` ends the body with this error.
enum RequestFault: Error {
    /// The body did not arrive in time.
    case tooSlow
    /// The relay is shutting down.
    case shuttingDown
}
