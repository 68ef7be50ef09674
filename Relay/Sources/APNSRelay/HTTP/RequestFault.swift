/// Why the rest of a request's body is not awaited. ``ConnectionHandler`` ends the body with it.
enum RequestFault: Error {
    /// The body did not arrive in time.
    case tooSlow
    /// The relay is shutting down.
    case shuttingDown
}
