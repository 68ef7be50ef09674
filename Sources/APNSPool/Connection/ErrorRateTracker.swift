import SupervisedPool

/// Decides by its responses whether a session still works. A connection can be wedged while its server is healthy
/// (pushy#408, #458: every response is 500 until the client reconnects). Pure; a few instructions per response.
struct ErrorRateTracker: Sendable {
    /// How many of the last responses count.
    static let window = 20
    /// How many responses with status 500 in the window are too many.
    static let errorLimit = 5
    /// How many passed deadlines without a response between them are too many.
    static let deadlineLimit = 5
    /// A deadline that passes after a shorter silence says more about the caller's patience than about the connection.
    static let shortestQuiet = Duration.seconds(1)

    private static let mask = UInt32(1) << UInt32(window) - 1
    /// One bit per response, the newest lowest; 1: status 500.
    private var responses: UInt32 = 0
    private var deadlines = 0

    /// Responses with another status than 500.
    mutating func received(_ count: Int = 1) {
        self.deadlines = 0
        if self.responses != 0 {
            self.responses = count >= Self.window ? 0 : self.responses << UInt32(count) & Self.mask
        }
    }

    /// A response with status 500.
    ///
    /// - Returns: whether there were too many. They are forgotten then, so that the next verdict needs as many again.
    mutating func receivedInternalServerError() -> Bool {
        self.deadlines = 0
        self.responses = (self.responses << 1 | 1) & Self.mask
        guard self.responses.nonzeroBitCount >= Self.errorLimit else { return false }
        self.responses = 0
        return true
    }

    /// A stream was reset at its deadline.
    ///
    /// - Parameter quiet: how long streams have been open without a response frame.
    /// - Returns: whether there were too many. They are forgotten then.
    mutating func deadlinePassed(quiet: Duration) -> Bool {
        guard quiet >= Self.shortestQuiet else { return false }
        self.deadlines += 1
        guard self.deadlines >= Self.deadlineLimit else { return false }
        self.deadlines = 0
        return true
    }
}
