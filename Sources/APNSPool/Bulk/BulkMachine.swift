// This folder: bulk calls. `BulkMachine` decides, `BulkRun` performs, and `BulkCollector` brings results from the
// connections' event loops. The public types are in APNSModel/Bulk. The folder Sending decides whether a push is
// resent.

import APNSBasics
import APNSModel
import SupervisedPool

/// Decides what a bulk call does next: pull elements, check out streams for new pushes and due resends, end expired
/// pushes, hold the input back, wait, or finish.
///
/// A value without I/O: time and randomness are parameters. `BulkRun` reports events to the machine and performs the
/// ``Step`` that ``next(_:)`` returns. The machine knows only the index and deadline of a push. `PushHistory` decides
/// what is resent and how often.
///
/// The input is pulled no faster than the consumer takes outcomes. While sending is pointless, the machine holds the
/// input back: elements that were pulled wait until their own deadlines. When none is left, a single element is pulled,
/// which tests whether sending works again.
struct BulkMachine {
    /// The next step for `BulkRun`.
    enum Step {
        /// Pull up to this many elements from the input. Report each element, and report an input that has none.
        case pull(Int)
        /// Close the input: no further element is wanted. Elements that it has already read are still pulled.
        case closeInput
        /// End these pushes. None of them is on a connection.
        case end([Int], AttemptEnd)
        /// Request streams from the pool: how many, and until when. Report `leased`, `checkoutFailed` or
        /// `checkoutWithdrawn`.
        case checkOut(Int, MonotonicInstant)
        /// Wait for an event, at most until this instant. If outcomes are ready, deliver them and begin a new round
        /// instead of waiting.
        case wait(until: MonotonicInstant)
        /// Finish: every pulled element has its outcome, and no further element will be pulled.
        case finish
    }

    /// A pulled push that waits for a stream.
    struct Waiting: Equatable {
        let index: Int
        let deadline: MonotonicInstant
    }

    /// Whether pushes are sent at present.
    private enum Flow {
        /// Up to `limit` pushes are in flight or unread.
        case open
        /// Nothing is sent before `until`, for this reason.
        case held(because: AttemptEnd, until: MonotonicInstant)
        /// One push at a time, until there is a verdict.
        case oneByOne(because: AttemptEnd)
    }

    private enum Input {
        case open
        /// Closed by the machine. It may still contain elements that it read earlier.
        case closed
        case over
    }

    private struct Resend {
        let push: Waiting
        let notBefore: MonotonicInstant
    }

    /// The maximum number of elements pulled at once.
    static let batchSize = PendingPushes.batchSize
    /// The maximum number of pushes in flight or unread until the first accepted push, or the first 410, shows that the
    /// environment and topic are right.
    static let firstInFlight = 500
    /// The pauses of a hold.
    static let pauses = Backoff(.doubling(randomPercent: 50), minimum: .milliseconds(50), maximum: .seconds(1))

    private static let expired = AttemptEnd.notSent(
        .deadlineExceeded,
        "the deadline came before it was sent",
        isFinal: true
    )
    private let maxInFlight: Int
    private var limit: Int
    private var flow = Flow.open
    /// The pauses of the holds since the last response.
    private var pauses = Self.pauses
    private var random: SplitMix64
    private var input = Input.open
    /// Whether the input had no element when it was last asked.
    private var isInputEmpty = false
    private var hasPulled = false
    private var orders = BulkControl.Orders()
    private var limiter: TokenBucket?
    /// The turns that were taken from the rate limiter for the last requested pull and are not used yet.
    private var allowance = 0
    /// A queue. The elements before `head` have already been removed.
    private var waiting: [Waiting] = []
    private var head = 0
    /// A lower bound for the deadlines of all waiting pushes.
    private var earliestDeadline = MonotonicInstant.distantFuture
    private var resends: [Resend] = []
    private var nextResend = MonotonicInstant.distantFuture
    private(set) var inFlight = 0
    /// The number of outcomes that the consumer has not taken. `BulkRun` sets it before each step.
    var unread = 0
    private var isCheckingOut = false
    /// The pushes ended by the last failed checkout.
    private var failedCheckout: (pushes: [Int], end: AttemptEnd)?
    /// Why no more pushes are sent.
    private var stop: AttemptEnd?
    /// Whether an element must still be ended with `stop`, so that the caller learns the reason.
    private var isStopUnreported = false
    private var isClientDraining = false
    /// Whether the input was closed before it was over, because the client drains or has ended.
    private(set) var isCutOffByClient = false

    /// - Parameter seed: Makes the pauses repeatable; nil: a random seed.
    init(maxInFlight: Int, seed: UInt64? = nil) {
        self.maxInFlight = maxInFlight
        self.random = SplitMix64(seed: seed)
        self.limit = min(maxInFlight, Self.firstInFlight)
    }

    var waitingCount: Int { self.waiting.count - self.head }

    /// The number of pulled pushes without an outcome.
    var unfinished: Int { self.waitingCount + self.inFlight + self.resends.count }

    /// The reason why the input is held back or pushes are sent one by one; nil while the flow is open.
    var hold: AttemptEnd? {
        switch self.flow {
        case .open: nil
        case .held(let cause, _), .oneByOne(let cause): cause
        }
    }

    // MARK: Decisions

    /// Returns the next step. A round ends when it returns `checkOut`, `wait` or `finish`.
    mutating func next(_ now: MonotonicInstant) -> Step {
        self.returnAllowance()
        if let failedCheckout {
            self.failedCheckout = nil
            return .end(failedCheckout.pushes, failedCheckout.end)
        }
        self.admitResends(now)
        if let stop {
            if self.waitingCount > 0 {
                self.isStopUnreported = false
                return .end(self.takeAllWaiting(), stop)
            }
        } else if now >= self.earliestDeadline, let expired = self.takeExpired(now) {
            return .end(expired, self.hold?.final(now: now) ?? Self.expired)
        }
        if self.input == .open, self.isPullingOver {
            self.input = .closed
            if self.isClientDraining { self.isCutOffByClient = true }
            return .closeInput
        }
        let room = self.hasPulled ? 0 : self.allowedPulls(now)
        if room > 0 {
            self.hasPulled = true
            return .pull(room)
        }
        if let push = self.firstWaiting, !self.isCheckingOut, self.mayCheckOut(now) {
            self.isCheckingOut = true
            return .checkOut(self.submittable, push.deadline)
        }
        if self.input == .over, self.unfinished == 0 { return .finish }
        return .wait(until: self.wakeUp(now))
    }

    /// Begins a new round, in which the input is asked again.
    mutating func beginRound() {
        self.isInputEmpty = false
        self.hasPulled = false
    }

    private var isPullingOver: Bool {
        self.orders.isStopped || self.isClientDraining || self.stop != nil && !self.isStopUnreported
    }

    private var firstWaiting: Waiting? { self.waitingCount > 0 ? self.waiting[self.head] : nil }

    private func mayCheckOut(_ now: MonotonicInstant) -> Bool {
        if case .held(_, let until) = self.flow, now < until { return false }
        return self.submittable > 0
    }

    /// The number of waiting pushes that may be sent now.
    private var submittable: Int {
        switch self.flow {
        case .open: self.waitingCount
        // The weather admits one push at a time by itself, also while others wait for responses that never come.
        case .held, .oneByOne: self.inFlight == 0 || self.isHeldByWeather ? min(1, self.waitingCount) : 0
        }
    }

    /// Whether bad weather holds the input back.
    var isHeldByWeather: Bool {
        if case .held(let cause, _) = self.flow, case .held = cause { true } else { false }
    }

    /// The number of elements that may be pulled now.
    private mutating func allowedPulls(_ now: MonotonicInstant) -> Int {
        if self.input == .over || self.isInputEmpty { return 0 }
        // The closed input may still contain elements that it read earlier. They are pulled to be ended.
        if self.stop != nil, !self.isStopUnreported { return Self.batchSize }
        if self.orders.isPaused, self.input == .open { return 0 }
        if self.stop != nil { return self.unfinished + self.unread < self.limit ? 1 : 0 }
        let room = self.room
        guard room > 0, self.input == .open else { return room }
        guard self.limiter != nil else { return room }
        self.allowance = self.limiter?.take(upTo: room, now: now) ?? room
        return self.allowance
    }

    private var room: Int {
        switch self.flow {
        case .open:
            min(Self.batchSize, self.limit - self.inFlight - self.resends.count - self.unread) - self.waitingCount
        // One element, which tests whether sending works again.
        case .held, .oneByOne: self.unfinished == 0 && self.unread < self.limit ? 1 : 0
        }
    }

    /// When there is something to do even without an event.
    private func wakeUp(_ now: MonotonicInstant) -> MonotonicInstant {
        var instant = min(self.nextResend, self.earliestDeadline)
        // The end of a hold needs a wake-up only if nothing else blocks sending. Otherwise the event that removes the
        // block wakes the call.
        if !self.isCheckingOut, self.submittable > 0, case .held(_, let until) = self.flow {
            instant = min(instant, until)
        }
        if let limiter, self.input == .open, !self.isInputEmpty, !self.orders.isPaused, self.room > 0 {
            instant = min(instant, limiter.nextTurns(now: now))
        }
        return instant
    }

    // MARK: The caller and the client

    mutating func set(_ orders: BulkControl.Orders, now: MonotonicInstant) {
        if self.orders.rate != orders.rate { self.limiter = orders.rate.map { TokenBucket($0) } }
        self.orders = orders
        if orders.isStopped { self.tryOnceMore() }
    }

    /// Records that the client drains: no further element is pulled.
    mutating func drain() {
        guard !self.isClientDraining else { return }
        self.isClientDraining = true
        self.tryOnceMore()
    }

    /// Stops sending for this reason. Pushes on a connection finish.
    ///
    /// - Parameter mustBeReported: whether at least one element must end with this reason, so that the caller learns
    ///   it. An element is pulled for this if necessary.
    mutating func stop(_ end: AttemptEnd, mustBeReported: Bool = false) {
        if self.stop == nil {
            self.stop = end
            self.isStopUnreported = mustBeReported
        } else if !mustBeReported {
            // After a later stop, such as a cancellation, the first reason need not be reported any more.
            self.isStopUnreported = false
        }
    }

    /// Records that the client has ended. An input without a ready element is not waited for.
    mutating func clientEnded(_ end: AttemptEnd) {
        self.drain()
        self.stop(end)
    }

    /// Tries the waiting pushes once more, without waiting for the end of the hold. If the checkout fails, they fail.
    /// The input is closed, so the hold has nothing left to protect.
    private mutating func tryOnceMore() {
        if case .held(let cause, _) = self.flow {
            self.flow = .held(because: cause, until: MonotonicInstant(nanoseconds: .min))
        }
    }

    // MARK: The input

    mutating func pulled(_ index: Int, deadline: MonotonicInstant) {
        self.allowance -= 1
        self.append(Waiting(index: index, deadline: deadline))
    }

    /// Records an element that could not be made into a push.
    mutating func pulledInvalid() { self.allowance -= 1 }

    /// Records that the input has no element yet.
    mutating func inputIsEmpty() {
        self.isInputEmpty = true
        if self.stop != nil, self.isClientDraining { self.input = .over }
    }

    mutating func inputIsOver() { self.input = .over }

    private mutating func returnAllowance() {
        if self.allowance > 0 { self.limiter?.giveBack(self.allowance) }
        self.allowance = 0
    }

    // MARK: Streams

    /// Records that the pool leased streams.
    ///
    /// - Returns: how many of the waiting pushes may be sent, at most `count`.
    mutating func leased(_ count: Int) -> Int {
        self.isCheckingOut = false
        return min(count, self.submittable)
    }

    /// Removes and returns the first waiting push, which the caller sends or ends now.
    mutating func popWaiting() -> Waiting? {
        guard self.head < self.waiting.count else { return nil }
        let push = self.waiting[self.head]
        self.head += 1
        if self.head == self.waiting.count { self.clearWaiting() }
        return push
    }

    /// Records that `count` pushes were handed to a connection.
    mutating func submitted(_ count: Int) {
        self.inFlight += count
        guard count > 0, case .held(let cause, _) = self.flow, !self.isHeldByWeather else { return }
        self.flow = .oneByOne(because: cause)
    }

    /// Records that the checkout was given up or its streams were returned. A new checkout is needed.
    mutating func checkoutWithdrawn() { self.isCheckingOut = false }

    /// Records that the checkout failed.
    mutating func checkoutFailed(_ end: AttemptEnd, now: MonotonicInstant) {
        self.isCheckingOut = false
        if case .held(_, _, let until, _) = end {
            // The weather decides when one push may be tried. Once the input is closed, nothing waits for that.
            if self.isPullingOver {
                self.failedCheckout = (self.takeAllWaiting(), end.final(now: now))
            } else {
                self.flow = .held(because: end, until: until)
            }
            return
        }
        guard case .notSent(let code, _, _, true) = end else {
            self.failedCheckout = (self.takeAllWaiting(), end)
            return
        }
        let isTemporary = [.unavailable, .queueFull, .credential, .notRunning].contains(code)
        // A timed-out checkout ends no pushes here, because each push has its own deadline. Pushes do not wait for the
        // end of a configuration fault, because such a fault does not pass by itself.
        if code != .deadlineExceeded, !isTemporary || self.isPullingOver {
            self.failedCheckout = (self.takeAllWaiting(), end)
        }
        if !self.isPullingOver, isTemporary || code == .configuration { self.holdBack(end, now) }
    }

    private mutating func holdBack(_ end: AttemptEnd, _ now: MonotonicInstant) {
        self.flow = .held(because: end, until: now.advanced(by: self.pauses.next(using: &self.random)))
    }

    // MARK: Results

    /// Records that `count` pushes came back from a connection.
    mutating func received(_ count: Int) { self.inFlight -= count }

    /// Queues the push for a resend, not before `notBefore`.
    mutating func resend(_ index: Int, deadline: MonotonicInstant, notBefore: MonotonicInstant) {
        self.resends.append(Resend(push: Waiting(index: index, deadline: deadline), notBefore: notBefore))
        self.nextResend = min(self.nextResend, notBefore)
    }

    /// Records a verdict of APNs on a push. Ends a hold, or the time in which pushes are sent one by one (`oneByOne`).
    mutating func receivedVerdict() {
        guard case .open = self.flow else {
            self.flow = .open
            self.pauses.reset()
            return
        }
    }

    /// Records that the weather has changed: the next push may ask again whether it may be tried.
    mutating func weatherChanged() {
        if self.isHeldByWeather { self.tryOnceMore() }
    }

    /// Records a response which proves that the environment and topic are right.
    mutating func deviceTokenWorks() { self.limit = self.maxInFlight }

    // MARK: Queues

    private mutating func append(_ push: Waiting) {
        self.waiting.append(push)
        self.earliestDeadline = min(self.earliestDeadline, push.deadline)
    }

    private mutating func clearWaiting() {
        self.waiting.removeAll(keepingCapacity: true)
        self.head = 0
        self.earliestDeadline = .distantFuture
    }

    private mutating func takeAllWaiting() -> [Int] {
        let all = self.waiting[self.head...].map(\.index)
        self.clearWaiting()
        return all
    }

    private mutating func takeExpired(_ now: MonotonicInstant) -> [Int]? {
        let live = self.waiting[self.head...]
        let expired = live.filter { $0.deadline <= now }.map(\.index)
        self.waiting = live.filter { $0.deadline > now }
        self.head = 0
        self.earliestDeadline = self.waiting.map(\.deadline).min() ?? .distantFuture
        return expired.isEmpty ? nil : expired
    }

    /// Moves the resends that are due to the front of the waiting pushes. Moves all resends if sending has stopped.
    private mutating func admitResends(_ now: MonotonicInstant) {
        guard !self.resends.isEmpty, now >= self.nextResend || self.stop != nil else { return }
        let due = self.resends.filter { $0.notBefore <= now || self.stop != nil }.map(\.push)
        self.resends.removeAll { $0.notBefore <= now || self.stop != nil }
        self.nextResend = self.resends.map(\.notBefore).min() ?? .distantFuture
        self.waiting.replaceSubrange(..<self.head, with: due)
        self.head = 0
        for push in due { self.earliestDeadline = min(self.earliestDeadline, push.deadline) }
    }
}
