import Foundation
import Logging
import PushQueue

// Restoring a copy from a snapshot, and storing snapshots so that old entries can be deleted.
extension JournalPushQueue {
    /// Continues with the newest snapshot, because entries that the copy does not contain were deleted.
    func closeGap() async {
        do throws(QueueError) {
            guard try await self.restore() else { return self.watch.need() }
        } catch  where error.code == .unusable {
            return self.fail(error)
        } catch {
            self.logger.warning("The snapshot cannot be fetched; trying again", metadata: ["error": "\(error)"])
            return self.watch.need()
        }
        self.gapSince = nil
        self.lastProgress = .now
        self.watch.advanced()
        // The snapshot contains the effects of these commands, but not their results.
        for number in Array(self.calls.keys) where self.copy.hasApplied(number, of: self.session) {
            self.end(number, .failure(Self.undecided))
        }
    }

    /// - Returns: true if no entry is missing any more; false if the journal must be read again.
    private func restore() async throws(QueueError) -> Bool {
        guard let extent else { return false }
        let progress = self.copy.progress.sequence
        guard let snapshot = try await self.journal.newestSnapshot(), snapshot.sequence > progress else {
            if extent.first <= progress &+ 1 { return true }
            // A broker that has just become the leader may not know the snapshot yet.
            guard self.isGapOld() else { return false }
            throw QueueError(
                code: .unusable,
                message:
                    "Entries of the journal after \(progress) are missing, and no snapshot contains them. Restore the "
                    + "streams from a backup."
            )
        }
        if extent.last < snapshot.sequence {
            if extent.first <= progress &+ 1, extent.last >= progress, progress > 0 { return true }
            guard self.isGapOld() else { return false }
            // The brokers have lost entries that the snapshot contains. Only an empty copy may continue with it.
            guard progress == 0 else { throw Self.lostEntries }
        }
        let file = self.copy.file + ".snapshot"
        defer { try? FileManager.default.removeItem(atPath: file) }
        guard try await self.journal.load(snapshot, into: file) else {
            self.logger.warning("Parts of the snapshot are missing, or there is a newer one; trying again")
            return false
        }
        try await self.copy.restore(from: file)
        if extent.last < snapshot.sequence { try await self.journal.deleteEntries(before: snapshot.sequence &+ 1) }
        self.logger.info(
            "The queue's copy was fetched from a snapshot",
            metadata: ["entry": "\(snapshot.sequence)", "bytes": "\(snapshot.size)"]
        )
        return true
    }

    /// Whether entries have been missing for longer than a call waits.
    private func isGapOld() -> Bool {
        let since = self.gapSince ?? .now
        self.gapSince = since
        return since.duration(to: .now) > self.options.timeout
    }

    /// Stores a snapshot if enough was appended since the last one. A process checks this each time the journal has
    /// grown by another quarter of ``Options/snapshotBytes``, but only if the entries that it has just applied include
    /// a command of its own. So usually only one process checks.
    func storeSnapshotIfDue(bytesBefore before: UInt64, isOwn: Bool) {
        let step = max(self.options.snapshotBytes / 4, 1)
        let bytes = self.copy.progress.bytes
        if isOwn, bytes / step != before / step { self.startSnapshot(isUrgent: false) }
    }

    /// Makes room in a journal that is full.
    func storeUrgentSnapshot() {
        if self.nextUrgentSnapshot <= .now { self.startSnapshot(isUrgent: true) }
    }

    private func startSnapshot(isUrgent: Bool) {
        guard !self.isStoringSnapshot, !self.isClosed else { return }
        self.isStoringSnapshot = true
        Task {
            await self.storeSnapshot(isUrgent: isUrgent)
            self.isStoringSnapshot = false
        }
    }

    /// Stores a snapshot if one is due or urgent. If this fails, the journal keeps its entries until the next snapshot.
    private func storeSnapshot(isUrgent: Bool) async {
        let file = self.copy.file + ".new-snapshot"
        defer { try? FileManager.default.removeItem(atPath: file) }
        do throws(QueueError) {
            let applied = self.copy.progress.sequence
            let newest = try await self.journal.newestSnapshot()
            if isUrgent {
                self.nextUrgentSnapshot = .now.advanced(by: Self.patience)
                if newest.map({ $0.sequence < applied }) ?? true { try await self.writeSnapshot(file) }
                // Keep the last entry: each process reads it again to check that it is the same.
                let last = max(applied, newest?.sequence ?? 0)
                guard last > 1 else { return }
                try await self.journal.deleteEntries(before: last)
                return self.logger.warning("The journal was full; a snapshot has made room")
            }
            // The cost of a snapshot grows with its size, so larger ones are stored less often.
            let due = max(self.options.snapshotBytes, newest?.size ?? 0)
            let bytes = self.copy.progress.bytes
            if bytes - min(newest?.journalBytes ?? 0, bytes) >= due { try await self.writeSnapshot(file) }
        } catch {
            // A snapshot that is being stored when the queue is closed fails, which is no loss.
            guard !self.isClosed else { return }
            if isUrgent { self.nextUrgentSnapshot = .now.advanced(by: .seconds(30)) }
            self.logger.warning("A snapshot of the queue could not be stored", metadata: ["error": "\(error)"])
        }
    }

    private func writeSnapshot(_ file: String) async throws(QueueError) {
        let snapshot = try await self.copy.writeSnapshot(to: file)
        // A copy with entries that the journal does not have must not become the copy of other processes.
        guard self.failure == nil, self.shortSince == nil else { throw self.failure ?? Self.lostEntries }
        try await self.journal.store(snapshot, from: file)
    }
}
