import SupervisedPool

/// Determines from the responses whether a connection still works. A connection can be stuck while its server is healthy
/// (pushy#408, #458: every response is 500 until the client reconnects). Pure; costs a few instructions per response.
struct ErrorRateTracker: Sendable {
    /// The number of most recent responses that are considered.
    static let window = 20
    /// The number of responses with status 500 in the window that counts as a failure.
    static let errorLimit = 5
    /// The number of passed deadlines, without a response between them, that counts as a failure.
    static let deadlineLimit = 5
    /// A deadline that passes after a shorter silence indicates an impatient caller rather than a broken connection.
    static let shortestQuiet = Duration.seconds(1)

    private static let mask = UInt32(1) << UInt32(window) - 1
    /// One bit per response, the newest in the lowest bit; 1: status 500.
    private var responses: UInt32 = 0
    private var deadlines = 0

    /// Records responses with a status other than 500.
    mutating func received(_ count: Int = 1) {
        self.deadlines = 0
        if self.responses != 0 {
            self.responses = count >= Self.window ? 0 : self.responses << UInt32(count) & Self.mask
        }
    }

    /// Records a response with status 500.
    ///
    /// - Returns: whether the limit is reached. The responses are then forgotten, so that the next failure requires as
    ///   many again.
    mutating func receivedInternalServerError() -> Bool {
        self.deadlines = 0
        self.responses = (self.responses << 1 | 1) & Self.mask
        guard self.responses.nonzeroBitCount >= Self.errorLimit else { return false }
        self.responses = 0
        return true
    }

    /// Records that a stream was reset at its deadline.
    ///
    /// - Parameter quiet: how long streams have been open without a response frame.
    /// - Returns: whether the limit is reached. The passed deadlines are then forgotten.
    mutating func deadlinePassed(quiet: Duration) -> Bool {
        guard quiet >= Self.shortestQuiet else { return false }
        self.deadlines += 1
        guard self.deadlines >= Self.deadlineLimit else { return false }
        self.deadlines = 0
        return true
    }
}
