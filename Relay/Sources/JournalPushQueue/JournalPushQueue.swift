import APNSModel
import Foundation
package import Logging
package import PushQueue
import SQLitePushQueue

/// A queue that several processes share. Each call that changes the queue appends a command to a journal, and each
/// process applies the commands of all processes, in the order of the journal, to its own copy of the queue. The order
/// decides between calls that compete, so there are no locks. A call returns once its command was read back, which
/// proves that it is stored.
package actor JournalPushQueue {
    /// Receives the number of entries in a transaction, and the duration of the transaction with its commit.
    package typealias WhenCommitted = @Sendable (_ entries: Int, _ duration: Duration) -> Void

    struct Call {
        var continuation: CheckedContinuation<Result<CommandResult, QueueError>, Never>
        var records: [JournalRecord]
        var started: ContinuousClock.Instant
        var appended: ContinuousClock.Instant
    }

    /// How long to wait for an entry before its record is appended again.
    static let patience = Duration.seconds(2)

    let options: Options
    let copy: QueueCopy
    /// The queue's clock: that of the journal's storage, or the test's clock from the options.
    package nonisolated let clock: any QueueClock
    /// What became of the claims of processes that have used the file before.
    package private(set) var expiredAtOpen = ExpiredLeases()
    private nonisolated let journalClock: JournalClock
    let journal: any Journal
    let session = APNSID.random()
    let logger: Logger
    private let whenCommitted: WhenCommitted
    private var nextNumber: UInt64 = 1
    var calls: [UInt64: Call] = [:]
    /// Claims that a failed call may have marked as written.
    var undecidedMarks: Set<Claim> = []
    /// Why the queue cannot be used any more; nil while it can.
    var failure: QueueError?
    /// Why entries cannot be applied at the moment; nil while they can.
    private var problem: QueueError?
    var isClosed = false
    private var isReady = false
    var watch = ReaderWatch()
    private var isHandlingEvents = false
    /// The entries that the journal had when this process first read it.
    private var firstExtent: JournalExtent?
    /// The entries that the journal had when this process last read it.
    var extent: JournalExtent?
    /// Since when the journal has ended before the last entry of the copy; nil if it does not.
    var shortSince: ContinuousClock.Instant?
    /// Since when entries have been missing that the copy needs and cannot get: no snapshot contains them, or only one
    /// that extends beyond the end of the journal.
    var gapSince: ContinuousClock.Instant?
    /// When entries or a snapshot were last applied.
    var lastProgress = ContinuousClock.now
    private var lastClockWarning: ContinuousClock.Instant?
    var isStoringSnapshot = false
    /// The earliest time of the next snapshot that makes room in a full journal.
    var nextUrgentSnapshot = ContinuousClock.now
    private nonisolated let failures = AsyncStream<QueueError>.makeStream()
    private var whenIdle: [CheckedContinuation<Void, Never>] = []
    private var whenReady: CheckedContinuation<Void, Never>?
    private var tasks: [Task<Void, Never>] = []

    private init(
        _ journal: any Journal,
        _ copy: QueueCopy,
        _ options: Options,
        _ logger: Logger,
        _ whenCommitted: @escaping WhenCommitted
    ) {
        let journalClock = JournalClock(system: options.systemClock)
        self.journal = journal
        self.copy = copy
        self.options = options
        self.journalClock = journalClock
        self.clock = options.clock ?? journalClock
        self.logger = logger
        self.whenCommitted = whenCommitted
    }

    /// Opens the copy and reads the journal up to its end.
    ///
    /// - Parameters:
    ///   - journal: the journal. It is closed if this fails, and otherwise with the queue.
    ///   - options: the file and the limits.
    ///   - logger: for what an operator should know.
    ///   - whenCommitted: called after each transaction.
    /// - Throws: `QueueError`: `unusable` if the journal or the file cannot be read, or if entries are missing;
    ///   `unavailable` if the journal cannot be reached; `inUse` if another process uses the file.
    package static func open(
        _ journal: any Journal,
        options: Options,
        logger: Logger,
        whenCommitted: @escaping WhenCommitted = { _, _ in }
    ) async throws(QueueError) -> JournalPushQueue {
        let copy: QueueCopy
        do throws(QueueError) {
            copy = try await QueueCopy.open(
                file: options.file,
                maxPageCount: options.maxPageCount,
                logger: logger
            )
        } catch {
            await journal.close()
            throw error
        }
        let queue = JournalPushQueue(journal, copy, options, logger, whenCommitted)
        do throws(QueueError) {
            try await queue.catchUp()
        } catch {
            await queue.close()
            throw error
        }
        return queue
    }

    // MARK: Opening

    private func catchUp() async throws(QueueError) {
        let start = ContinuousClock.now
        let from = self.copy.progress.sequence
        self.tasks = [
            Task { await self.handleEvents() },
            Task { await self.retry() },
        ]
        self.readIfNeeded()
        await self.waitUntilReady()
        if let failure = self.failure { throw failure }
        try await self.endEarlierClaims()
        self.logger.info(
            "Queue opened",
            metadata: [
                "file": "\(self.copy.file)", "entries": "\(self.copy.progress.sequence - from)",
                "seconds": "\(start.duration(to: .now) / .seconds(1))", "unsettled": "\(self.copy.totals.unsettled)",
                "requeued": "\(self.expiredAtOpen.queued)", "resent": "\(self.expiredAtOpen.resent)",
                "unknown": "\(self.expiredAtOpen.unknown)",
            ]
        )
    }

    /// Ends the claims of processes that used the file before. None of these processes runs any more, because this one
    /// holds the file's lock.
    private func endEarlierClaims() async throws(QueueError) {
        let earlier = try await self.copy.addProcess(self.session)
        guard !earlier.isEmpty else { return }
        let end = ContinuousClock.now.advanced(by: self.options.timeout * 2)
        while true {
            do throws(QueueError) {
                if case .expired(let expired) = try await self.call(.endClaims(earlier)) {
                    self.expiredAtOpen = expired
                }
                break
            } catch  where error.code != .unusable && .now < end {
                // Try again: for example, a snapshot may be making room in a full journal.
                try? await Task.sleep(for: Self.patience / 4)
            }
        }
        try await self.copy.removeProcesses(earlier)
    }

    private func waitUntilReady() async {
        guard !self.isReady, self.failure == nil else { return }
        await withCheckedContinuation { self.whenReady = $0 }
    }

    private func checkReady() {
        let isCurrent =
            self.firstExtent.map { self.copy.progress.sequence >= $0.last } ?? false
            && self.shortSince == nil && self.gapSince == nil
        guard self.failure != nil || isCurrent else { return }
        self.isReady = true
        self.whenReady?.resume()
        self.whenReady = nil
    }

    // MARK: Reading the journal

    /// The last entry that the copy contains; 0 for none.
    package var lastEntry: UInt64 { self.copy.progress.sequence }

    private func handleEvents() async {
        while let events = await self.journal.events.take() {
            self.isHandlingEvents = true
            var entries: [JournalEntry] = []
            for event in events {
                switch event {
                case .entry(let entry): entries.append(entry)
                case .extent(let extent):
                    await self.apply(entries)
                    entries = []
                    await self.handle(extent)
                case .refused(let number, let reason, let isFull):
                    await self.apply(entries)
                    entries = []
                    self.refuse(number, reason, isFull)
                case .interrupted:
                    self.shortSince = nil
                    self.watch.need()
                case .reconnected:
                    self.shortSince = nil
                    self.watch.restart()
                    for number in self.calls.keys { self.append(number) }
                case .closed(let error): self.fail(error)
                }
            }
            await self.apply(entries)
            self.isHandlingEvents = false
            self.watch.handledEvents()
            self.checkReady()
            self.readIfNeeded()
        }
    }

    /// Compares the entries of the journal with those that the copy contains.
    private func handle(_ extent: JournalExtent) async {
        // An empty copy looks for a snapshot, too, because one may contain entries that the brokers have lost.
        let mayBeMore = self.firstExtent == nil || self.gapSince != nil
        if self.firstExtent == nil { self.firstExtent = extent }
        self.extent = extent
        let last = self.copy.progress.sequence
        guard extent.last >= last else { return self.noteShortness() }
        self.shortSince = nil
        if extent.first > last &+ 1 || last == 0 && mayBeMore { await self.closeGap() }
    }

    /// Records that the journal ends before an entry that the copy contains. A broker that has just become the leader
    /// may not know the last entries yet, so the queue fails only if they are missing for longer than a call waits.
    private func noteShortness() {
        let since = self.shortSince ?? .now
        self.shortSince = since
        if since.duration(to: .now) > self.options.timeout { self.fail(Self.lostEntries) }
    }

    /// Applies the entries that follow the last applied one, and no others.
    private func apply(_ entries: [JournalEntry]) async {
        var next: [JournalEntry] = []
        var last = self.copy.progress
        for entry in entries {
            if entry.sequence == last.sequence, let record = last.record, next.isEmpty {
                // This entry was applied before. If its record differs, the journal has lost its end and gone on.
                if Self.name(of: entry) != record { return self.fail(Self.lostEntries) }
                self.shortSince = nil
            } else if entry.sequence == last.sequence &+ 1 {
                next.append(entry)
                last.sequence = entry.sequence
            } else if entry.sequence > last.sequence {
                self.watch.need()
                break
            }
        }
        await self.applyAll(next)
    }

    private static func name(of entry: JournalEntry) -> QueueCopy.RecordName? {
        (try? JournalRecord(entry.record)).map {
            QueueCopy.RecordName(session: $0.session, number: $0.number, part: $0.part)
        }
    }

    private func applyAll(_ entries: [JournalEntry]) async {
        var rest = entries[...]
        while !rest.isEmpty, self.failure == nil, !Task.isCancelled {
            let start = ContinuousClock.now
            let before = self.copy.progress.bytes
            do throws(QueueError) {
                let (count, applied) = try await self.copy.apply(rest, for: self.session)
                self.whenCommitted(count, start.duration(to: .now))
                self.finish(applied, in: rest)
                rest = rest.dropFirst(count)
                self.lastProgress = .now
                self.watch.advanced()
                self.shortSince = nil
                self.setProblem(nil)
                self.storeSnapshotIfDue(bytesBefore: before, isOwn: !applied.isEmpty)
            } catch  where error.code == .unusable {
                self.fail(error)
            } catch {
                // The entries stay in the journal, so nothing is lost.
                self.setProblem(error)
                try? await Task.sleep(for: .seconds(1))
            }
        }
    }

    /// Returns the results of this process's commands to their calls, and sets the clock by the last of their entries.
    private func finish(_ applied: [QueueCopy.Applied], in entries: ArraySlice<JournalEntry>) {
        for result in applied {
            if case .claimed(let pushes, _) = result.result, self.calls[result.number] == nil {
                self.takeBack(pushes.map(\.claim))
            }
            if case .tooLate = result.result {
                self.end(result.number, .failure(Self.tooLate))
            } else {
                self.end(result.number, .success(result.result))
            }
        }
        if let last = applied.last, let entry = entries.first(where: { $0.sequence == last.sequence }) {
            self.journalClock.observe(entry)
            self.checkClock()
        }
    }

    private func setProblem(_ error: QueueError?) {
        if let error, self.problem == nil {
            self.logger.error("The queue's copy cannot be written; trying again", metadata: ["error": "\(error)"])
        } else if error == nil, self.problem != nil {
            self.logger.info("The queue's copy can be written again")
        }
        self.problem = error
    }

    private func checkClock() {
        let now = ContinuousClock.now
        let offset = self.journalClock.offsetOfDay
        guard self.options.clock == nil, offset > .seconds(5) || offset < .seconds(-5),
            self.lastClockWarning.map({ $0.duration(to: now) > .seconds(600) }) ?? true
        else { return }
        self.lastClockWarning = now
        self.logger.warning(
            """
            The clock of this machine differs from that of the brokers, which the queue uses. Set it by NTP: APNs \
            refuses tokens with a wrong time.
            """,
            metadata: ["seconds": "\(offset / .seconds(1))"]
        )
    }

    /// Starts a new reader at the last applied entry, if one is needed and no events are being handled.
    private func readIfNeeded() {
        guard !self.isHandlingEvents, self.failure == nil, self.watch.shouldRead() else { return }
        // Read the last applied entry again, to check that it is still the same.
        self.journal.read(after: max(self.copy.progress.sequence, 1) - 1)
    }

    func fail(_ error: QueueError) {
        guard self.failure == nil else { return }
        self.failure = error
        self.logger.error("The queue cannot be used any more", metadata: ["error": "\(error)"])
        for number in Array(self.calls.keys) { self.end(number, .failure(error)) }
        self.failures.continuation.yield(error)
        self.checkReady()
    }

    /// Waits until the queue cannot be used any more.
    ///
    /// - Returns: why; nil if the queue was closed or the task was cancelled.
    package nonisolated func waitForFailure() async -> QueueError? {
        for await error in self.failures.stream { return error }
        return nil
    }

    static let lostEntries = QueueError(
        code: .unusable,
        message: "The brokers have lost the end of the journal, for example in a power failure, or the stream was "
            + "created again. Stop all relays, restore the streams from a backup if there is one, delete the files of "
            + "all relays (storage.file), and start the relays. Pushes in the lost entries may be missing or be sent "
            + "twice."
    )

    /// The lease time that a command would get if it were stored now.
    var leaseTime: QueueTime {
        let gap = min(self.lastProgress.duration(to: .now), QueueCopy.longestGap)
        return self.options.clock?.lease ?? self.copy.progress.leaseNow.advanced(by: gap)
    }

    // MARK: Calls

    func checkOpen() throws(QueueError) {
        if self.isClosed { throw .closed }
        if let failure = self.failure { throw failure }
    }

    /// Appends a command and waits until this process has applied it, which means that it is stored.
    func call(_ command: QueueCommand) async throws(QueueError) -> CommandResult {
        try self.checkOpen()
        let number = self.nextNumber
        self.nextNumber &+= 1
        let times = self.options.clock.map { (now: $0.now, lease: $0.lease) }
        let records = JournalRecord.records(
            TimedCommand(times: times, command: command).bytes,
            session: self.session,
            number: number,
            floor: self.calls.keys.min() ?? number,
            validUntil: self.journalClock.knownNow?.advanced(by: self.options.timeout * 2),
            maximum: self.journal.maximumRecord
        )
        let result = await withCheckedContinuation { continuation in
            let now = ContinuousClock.now
            self.calls[number] = Call(continuation: continuation, records: records, started: now, appended: now)
            self.append(records)
        }
        return try result.get()
    }

    private func append(_ records: [JournalRecord]) {
        for record in records {
            self.journal.append(
                record.bytes,
                id: "\(record.session)-\(record.number)-\(record.part)",
                number: record.number
            )
        }
    }

    /// Appends a command again. It takes effect once, however many copies are stored.
    private func append(_ number: UInt64) {
        guard let records = self.calls[number]?.records else { return }
        self.calls[number]?.appended = .now
        self.append(records)
    }

    func end(_ number: UInt64, _ result: Result<CommandResult, QueueError>) {
        guard let call = self.calls.removeValue(forKey: number) else { return }
        call.continuation.resume(returning: result)
        guard self.calls.isEmpty else { return }
        for continuation in self.whenIdle { continuation.resume() }
        self.whenIdle = []
    }

    /// Releases pushes that a call has claimed although it had already failed. Its caller does not know of the claims,
    /// so nobody would send the pushes until their lease ends.
    private func takeBack(_ claims: [Claim]) {
        guard !claims.isEmpty else { return }
        let releases = claims.map { Release(claim: $0, notBefore: self.clock.now, countsAttempt: false) }
        Task {
            while !self.isClosed, self.failure == nil {
                if (try? await self.release(releases)) != nil { return }
                try? await Task.sleep(for: Self.patience / 4)
            }
        }
    }

    /// Fails a call because a broker has no room for its record. The call may still take effect, because another broker
    /// may have room, or another copy of the record may have been stored.
    private func refuse(_ number: UInt64, _ reason: String, _ isFull: Bool) {
        self.end(
            number,
            .failure(
                QueueError(
                    code: .undecided,
                    message:
                        "The broker did not confirm that it stored a record: \(reason). Check the disk and the limits "
                        + "of the stream. It is not known whether the call had an effect."
                )
            )
        )
        if isFull { self.storeUrgentSnapshot() }
    }

    /// Twice a second: appends records again that were not read back in time, fails calls that have waited too long,
    /// and asks for a new reader if reading makes no progress. Fails the queue if it cannot be opened in time.
    private func retry() async {
        while (try? await Task.sleep(for: Self.patience / 4)) != nil {
            let now = ContinuousClock.now
            var isStuck = !self.isReady
            for (number, call) in self.calls {
                if call.started.duration(to: now) > self.options.timeout {
                    self.end(number, .failure(self.undecided))
                } else if call.appended.duration(to: now) > Self.patience {
                    isStuck = true
                    self.append(number)
                }
            }
            if self.cannotBeOpened { self.fail(self.problem ?? self.cannotBeRead) }
            if isStuck, !self.isHandlingEvents { self.watch.needIfQuiet() }
            if self.shortSince != nil || self.gapSince != nil { self.watch.need() }
            self.readIfNeeded()
        }
    }

    /// Whether opening has made no progress for too long. Entries that are missing have time limits of their own.
    private var cannotBeOpened: Bool {
        guard !self.isReady, self.shortSince == nil, self.gapSince == nil else { return false }
        let isWaiting = !self.isHandlingEvents || self.problem != nil
        return isWaiting && self.lastProgress.duration(to: .now) > self.options.timeout
    }

    private var cannotBeRead: QueueError {
        QueueError(
            code: .unavailable,
            message: "The journal cannot be read on after entry \(self.copy.progress.sequence). Check the brokers, and "
                + "whether somebody deleted entries."
        )
    }

    /// The error of a call that has waited too long.
    private var undecided: QueueError {
        self.problem.map {
            QueueError(code: .undecided, message: "\($0.message) It is not known whether the call had an effect.")
        } ?? Self.undecided
    }

    static let undecided = QueueError(
        code: .undecided,
        message: "The brokers did not respond in time. Check them. It is not known whether the call had an effect."
    )

    private static let tooLate = QueueError(
        code: .unavailable,
        message:
            "The brokers stored the call's record too late, or their clock has jumped. The call had no effect."
    )

    // MARK: Closing

    package func close() async {
        self.isClosed = true
        if !self.calls.isEmpty { await withCheckedContinuation { self.whenIdle.append($0) } }
        await self.end()
    }

    /// Fails all calls and closes without waiting for them, as if the process had been killed. For tests.
    package func abandon() async {
        self.isClosed = true
        for number in Array(self.calls.keys) { self.end(number, .failure(Self.undecided)) }
        await self.end()
    }

    private func end() async {
        self.failures.continuation.finish()
        for task in self.tasks { task.cancel() }
        await self.journal.close()
        for task in self.tasks { await task.value }
        self.tasks = []
        await self.copy.close()
    }
}
