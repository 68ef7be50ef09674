import Foundation
import JournalPushQueue
import PushQueue
import Synchronization

/// A journal in memory that outlives its readers. It stores each record several times, as a journal may whose answers
/// were lost.
final class MemoryJournal: Sendable {
    private struct State {
        var entries: [JournalEntry] = []
        var last: UInt64 = 0
        /// The last record that was appended.
        var previous: [UInt8]?
        var readers: [ObjectIdentifier: Reader] = [:]
        var snapshot: (JournalSnapshot, Data)?
        var snapshotCount = 0
        var refusedSnapshotCount = 0
        var readCount = 0
        var refusal: String?
        var isDeaf = false
        var lostCount = 0
        var isHolding = false
        /// Records that arrive late.
        var held: [[UInt8]] = []
        var clock: (any QueueClock)?

        var extent: JournalExtent {
            JournalExtent(first: self.entries.first?.sequence ?? self.last + 1, last: self.last)
        }
    }

    private let state = Mutex(State())
    let maximumRecord: Int
    let storesCopies: Bool

    /// - Parameters:
    ///   - maximumRecord: small to have commands in several parts.
    ///   - storesCopies: whether each record is stored three times.
    init(maximumRecord: Int = 100_000, storesCopies: Bool = false) {
        self.maximumRecord = maximumRecord
        self.storesCopies = storesCopies
    }

    var snapshotCount: Int { self.state.withLock { $0.snapshotCount } }

    /// How many snapshots were refused because the journal ends before them.
    var refusedSnapshotCount: Int { self.state.withLock { $0.refusedSnapshotCount } }

    /// How often a reader was started.
    var readCount: Int { self.state.withLock { $0.readCount } }

    /// Refuses every record until this is nil.
    func refuse(_ reason: String?) { self.state.withLock { $0.refusal = reason } }

    /// Loses every record until this is false.
    func lose(_ isDeaf: Bool) { self.state.withLock { $0.isDeaf = isDeaf } }

    /// How many records were lost.
    var lostCount: Int { self.state.withLock { $0.lostCount } }

    /// Holds every record back until this is false.
    func hold(_ isHolding: Bool) { self.state.withLock { $0.isHolding = isHolding } }

    /// Stores the records that were held back.
    func deliverHeld() {
        self.state.withLock { state in
            for record in state.held { Self.store(record, &state) }
            state.held = []
        }
    }

    /// Stamps entries with the times of a clock.
    func use(_ clock: any QueueClock) { self.state.withLock { $0.clock = clock } }

    var extent: JournalExtent { self.state.withLock { $0.extent } }

    var entryCount: Int { self.state.withLock { $0.entries.count } }

    /// Loses the last entries, as a broker may in a power failure.
    ///
    /// - Returns: the lost entries.
    @discardableResult func dropLast(_ count: Int) -> [JournalEntry] {
        self.state.withLock { state in
            defer {
                state.entries.removeLast(count)
                state.last -= UInt64(count)
            }
            return Array(state.entries.suffix(count))
        }
    }

    /// Has entries again that were lost.
    func restore(_ entries: [JournalEntry]) {
        self.state.withLock { state in
            state.entries += entries
            state.last += UInt64(entries.count)
        }
    }

    /// Forgets that it ever had entries.
    func empty() {
        self.state.withLock { state in
            state.entries = []
            state.last = 0
        }
    }

    /// Deletes the first entries, as an operator may.
    func dropFirst(_ count: Int) { self.state.withLock { $0.entries.removeFirst(count) } }

    /// Sends an event to all readers.
    func send(_ event: JournalEvent) {
        let readers = self.state.withLock { Array($0.readers.values) }
        for reader in readers { reader.events.add(event) }
    }

    /// Changes one byte of an entry.
    func damage(_ sequence: UInt64) {
        self.state.withLock { state in
            guard let index = state.entries.firstIndex(where: { $0.sequence == sequence }) else { return }
            state.entries[index].record[0] ^= 0xFF
        }
    }

    private static func store(_ record: [UInt8], _ state: inout State) {
        state.last += 1
        let time = state.clock?.now ?? SystemQueueClock().now
        let entry = JournalEntry(sequence: state.last, time: time, record: record)
        state.entries.append(entry)
        for reader in state.readers.values { reader.events.add(.entry(entry)) }
    }

    func reader() -> Reader { Reader(self) }

    /// One process.
    final class Reader: Journal {
        let events = JournalEvents(maximumBytes: .max)
        private let journal: MemoryJournal

        init(_ journal: MemoryJournal) { self.journal = journal }

        var maximumRecord: Int { self.journal.maximumRecord }

        func read(after sequence: UInt64) {
            self.journal.state.withLock { state in
                state.readers[ObjectIdentifier(self)] = self
                state.readCount += 1
                self.events.add(.extent(state.extent))
                for entry in state.entries where entry.sequence > sequence { self.events.add(.entry(entry)) }
            }
        }

        func append(_ record: [UInt8], id: String, number: UInt64) {
            self.journal.state.withLock { state in
                guard state.readers[ObjectIdentifier(self)] != nil else { return }
                if state.isDeaf {
                    state.lostCount += 1
                    return
                }
                if let refusal = state.refusal {
                    self.events.add(.refused(number: number, reason: refusal, isFull: true))
                    return
                }
                if state.isHolding {
                    state.held.append(record)
                    return
                }
                // A copy may come after the next record.
                let records =
                    self.journal.storesCopies ? [record, record] + (state.previous.map { [$0] } ?? []) : [record]
                for record in records { MemoryJournal.store(record, &state) }
                state.previous = record
            }
        }

        func newestSnapshot() async throws(QueueError) -> JournalSnapshot? {
            self.journal.state.withLock { $0.snapshot?.0 }
        }

        func load(_ snapshot: JournalSnapshot, into file: String) async throws(QueueError) -> Bool {
            guard let (newest, data) = self.journal.state.withLock({ $0.snapshot }), newest == snapshot else {
                return false
            }
            return FileManager.default.createFile(atPath: file, contents: data)
        }

        func store(_ snapshot: JournalSnapshot, from file: String) async throws(QueueError) {
            guard let data = FileManager.default.contents(atPath: file) else {
                throw QueueError(code: .unavailable, message: "\(file) cannot be read.")
            }
            let isShort = self.journal.state.withLock { state in
                let old = state.snapshot?.0.sequence ?? 0
                guard snapshot.sequence > old else { return false }
                guard snapshot.sequence <= state.last else {
                    state.refusedSnapshotCount += 1
                    return true
                }
                state.snapshot = (snapshot, data)
                state.snapshotCount += 1
                state.entries.removeAll { $0.sequence <= old }
                return false
            }
            if isShort { throw QueueError(code: .unavailable, message: "The journal ends before the snapshot.") }
        }

        func deleteEntries(before sequence: UInt64) async throws(QueueError) {
            self.journal.state.withLock { state in
                state.entries.removeAll { $0.sequence < sequence }
                state.last = max(state.last, sequence - 1)
            }
        }

        func close() async {
            self.journal.state.withLock { $0.readers[ObjectIdentifier(self)] = nil }
            self.events.close()
        }
    }
}
