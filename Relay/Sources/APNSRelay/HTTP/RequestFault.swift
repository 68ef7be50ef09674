/// The reason why the relay stops reading a request's body. ``ConnectionHandler`` ends the body with this error.
enum RequestFault: Error {
    /// The body did not arrive in time.
    case tooSlow
    /// The relay is shutting down.
    case shuttingDown
}
