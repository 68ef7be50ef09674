/// Why a supervisor gave up, or why a request to it failed.
public struct SupervisorError: Error, Sendable, CustomStringConvertible {
    /// The kind of error. Later versions may add kinds.
    public struct Code: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }
        public var description: String { self.rawValue }

        /// There were more restarts than the intensity allows. All children have been stopped.
        public static let intensityExceeded = Code(rawValue: "intensityExceeded")
        /// A child threw before it had started. If this happened at the supervisor's own start, all children have been
        /// stopped.
        public static let startFailed = Code(rawValue: "startFailed")
        /// `run` was called twice. A supervisor runs only once; create a new one.
        public static let alreadyRunning = Code(rawValue: "alreadyRunning")
        /// The supervisor has not been run, or it has ended.
        public static let notRunning = Code(rawValue: "notRunning")
        /// The supervisor is stopping.
        public static let shuttingDown = Code(rawValue: "shuttingDown")
        /// A child with that name already exists.
        public static let childExists = Code(rawValue: "childExists")
        /// There is no child with that name.
        public static let childNotFound = Code(rawValue: "childNotFound")
        /// The child is running; terminate it first.
        public static let childRunning = Code(rawValue: "childRunning")
        /// The child has ended and is about to be restarted.
        public static let childRestarting = Code(rawValue: "childRestarting")
        /// The child was terminated while the caller waited for its start.
        public static let childTerminated = Code(rawValue: "childTerminated")
        /// The waiting caller was cancelled. The supervisor may still carry out the request.
        public static let cancelled = Code(rawValue: "cancelled")
    }

    /// The kind of error.
    public let code: Code
    /// The supervisor's name.
    public let supervisor: String
    /// The child concerned.
    public let child: ChildSpec.ID?
    /// The latest failures before this error, oldest first: at most one more than the number of restarts that the
    /// intensity allows, and never more than 100.
    public let failures: [ChildFailure]

    /// The chain of causes, nearest first: the latest failure of this supervisor's child, then, if that child is a
    /// supervisor that gave up, the latest failure of its child, and so on.
    public var chain: [ChildFailure] {
        var chain: [ChildFailure] = []
        var next: SupervisorError? = self
        while let error = next, let failure = error.failures.last(where: { $0.id == error.child }) {
            chain.append(failure)
            next = failure.error as? SupervisorError
        }
        return chain
    }

    public var description: String {
        var text = "supervisor \(self.supervisor): \(self.code)"
        if let child { text += " (child \(child))" }
        let chain = self.chain
        if chain.count > 1, let last = chain.last {
            let path = [self.supervisor] + chain.map(\.id.name)
            text += ": " + path.joined(separator: " → ") + " → " + last.reason
        }
        if !self.failures.isEmpty {
            text += "; failures: " + self.failures.map { "\($0)" }.joined(separator: "; ")
        }
        return text
    }
}
