/// When transaction ids were given, from readings of the next one.
///
/// The server hides from a role without `pg_monitor` when the transactions of other roles began, and it never knows that
/// for a replication slot. It shows their ids to every role.
struct TransactionTimes {
    /// The next id and the last time at which it was read, both ascending.
    private var readings: [(next: Int64, last: ContinuousClock.Instant)] = []
    private var first: ContinuousClock.Instant?
    private let limit: Int

    /// - Parameter limit: the number of readings to keep. Beyond it, times become less precise.
    init(limit: Int = 1_000) {
        self.limit = limit
    }

    /// Adds a reading.
    ///
    /// - Parameters:
    ///   - next: the id that the server gives next.
    ///   - oldest: no older id will be asked for.
    mutating func read(next: Int64, oldest: Int64, at now: ContinuousClock.Instant) {
        if let last = self.readings.last, last.next > next {
            // The database was restored.
            self.readings = []
            self.first = nil
        }
        self.first = self.first ?? now
        if self.readings.last?.next == next { self.readings.removeLast() }
        self.readings.append((next, now))
        let unneeded = self.readings.dropFirst().prefix { $0.next <= oldest }.count
        self.readings.removeFirst(unneeded)
        guard self.readings.count > self.limit else { return }
        self.readings = self.readings.enumerated().filter { $0.offset.isMultiple(of: 2) }.map(\.element)
    }

    /// The time since an id was given, or since just before.
    ///
    /// - Returns: the time; nil if the id was given before the first reading.
    func age(of id: Int64, at now: ContinuousClock.Instant) -> Duration? {
        self.readings.last { $0.next <= id }.map { $0.last.duration(to: now) }
    }

    /// The time since the first reading.
    func span(at now: ContinuousClock.Instant) -> Duration { self.first?.duration(to: now) ?? .zero }
}
