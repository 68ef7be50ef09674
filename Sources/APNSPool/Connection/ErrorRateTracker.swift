/// Determines from the errors of a server whether a connection still works. A connection can be stuck while its server is
/// healthy (pushy#408, #458: every response is 500 until the client reconnects). Pure; costs a few instructions per
/// response.
struct ErrorRateTracker: Sendable {
    /// The number of most recent responses that are considered.
    static let window = 20
    /// The number of responses with status 500 in the window that counts as a failure.
    static let errorLimit = 5

    private static let mask = UInt32(1) << UInt32(window) - 1
    /// One bit per response, the newest in the lowest bit; 1: status 500.
    private var responses: UInt32 = 0

    /// Records responses without a server's error.
    mutating func received(_ count: Int = 1) {
        if self.responses != 0 {
            self.responses = count >= Self.window ? 0 : self.responses << UInt32(count) & Self.mask
        }
    }

    /// Records a response with status 500 or 503.
    ///
    /// - Returns: whether the connection has failed: at once with a 503, or because of many 500s, which are then forgotten,
    ///   so that the next failure requires as many again.
    mutating func received(error status: Int) -> Bool {
        self.responses = (self.responses << 1 | (status == 500 ? 1 : 0)) & Self.mask
        guard status == 503 || self.responses.nonzeroBitCount >= Self.errorLimit else { return false }
        self.responses = 0
        return true
    }
}
