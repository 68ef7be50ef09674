import SupervisedPool

/// Whether one session still works, by what it answers: a connection can be wedged while its server is well (pushy#408,
/// #458: answers 500 until somebody reconnects). Pure, a few instructions an answer.
struct SessionHealth: Sendable {
    /// Of so many last answers …
    static let window = 20
    /// … so many with status 500 are too many.
    static let errorLimit = 5
    /// So many deadlines without an answer between them are too many.
    static let deadlineLimit = 5
    /// A deadline that passes sooner says more of its caller's patience than of the connection.
    static let shortestQuiet = Duration.seconds(1)

    private static let mask = UInt32(1) << UInt32(window) - 1
    /// One bit an answer, the newest lowest; 1: status 500.
    private var answers: UInt32 = 0
    private var deadlines = 0

    /// Answers with another status than 500.
    mutating func answered(_ count: Int = 1) {
        self.deadlines = 0
        if self.answers != 0 { self.answers = count >= Self.window ? 0 : self.answers << UInt32(count) & Self.mask }
    }

    /// An answer 500. True: there were too many; they are forgotten with that, so that the next verdict needs as many.
    mutating func answeredWithError() -> Bool {
        self.deadlines = 0
        self.answers = (self.answers << 1 | 1) & Self.mask
        guard self.answers.nonzeroBitCount >= Self.errorLimit else { return false }
        self.answers = 0
        return true
    }

    /// A stream was reset because its time was over. True: there were too many; they are forgotten with that.
    ///
    /// - Parameter quiet: how long streams have been open and no response frame has come.
    mutating func deadlinePassed(quiet: Duration) -> Bool {
        guard quiet >= Self.shortestQuiet else { return false }
        self.deadlines += 1
        guard self.deadlines >= Self.deadlineLimit else { return false }
        self.deadlines = 0
        return true
    }
}
