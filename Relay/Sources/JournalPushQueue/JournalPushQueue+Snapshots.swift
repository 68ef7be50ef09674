import Foundation
import Logging
import PushQueue

// How a copy catches up although entries were deleted, and how entries that all have read are deleted.
extension JournalPushQueue {
    /// Continues with the newest snapshot, because entries were deleted that the copy does not contain.
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
        // The results of these commands were in the entries that are gone.
        for number in Array(self.calls.keys) where self.copy.hasApplied(number, of: self.session) {
            self.end(number, .failure(Self.undecided))
        }
    }

    /// - Returns: whether nothing is missing any more; false to read the journal again.
    private func restore() async throws(QueueError) -> Bool {
        guard let extent else { return false }
        let progress = self.copy.progress.sequence
        guard let snapshot = try await self.journal.newestSnapshot(), snapshot.sequence > progress else {
            if extent.first <= progress &+ 1 { return true }
            // A broker that has just become the leader may know the snapshot only a little later.
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
            // There is no copy, and the brokers have lost the entries: the snapshot is what is left.
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

    /// Stores a snapshot if enough was appended since the last one. A process checks this when the entries that it
    /// applies reach another quarter of ``Options/snapshotBytes`` and include its own command. Usually only one does.
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

    /// If it fails, the journal stays longer until the next snapshot.
    private func storeSnapshot(isUrgent: Bool) async {
        let file = self.copy.file + ".new-snapshot"
        defer { try? FileManager.default.removeItem(atPath: file) }
        do throws(QueueError) {
            let (full, newest) = (self.copy.progress.sequence, try await self.journal.newestSnapshot())
            if isUrgent {
                self.nextUrgentSnapshot = .now.advanced(by: Self.patience)
                if newest.map({ $0.sequence < full }) ?? true { try await self.writeSnapshot(file) }
                // The last entry stays: each process reads it again to see that it is the same.
                let last = max(full, newest?.sequence ?? 0)
                guard last > 1 else { return }
                try await self.journal.deleteEntries(before: last)
                return self.logger.warning("The journal was full; a snapshot has made room")
            }
            // A snapshot costs as much as its size, so the larger it is, the more rarely one is made.
            let due = max(self.options.snapshotBytes, newest?.size ?? 0)
            let bytes = self.copy.progress.bytes
            if bytes - min(newest?.journalBytes ?? 0, bytes) >= due { try await self.writeSnapshot(file) }
        } catch {
            if isUrgent { self.nextUrgentSnapshot = .now.advanced(by: .seconds(30)) }
            self.logger.warning("No snapshot of the queue was stored", metadata: ["error": "\(error)"])
        }
    }

    private func writeSnapshot(_ file: String) async throws(QueueError) {
        let snapshot = try await self.copy.writeSnapshot(to: file)
        // A copy with entries that the journal does not have must not replace those of the others.
        guard self.failure == nil, self.shortSince == nil else { throw self.failure ?? Self.lostEntries }
        try await self.journal.store(snapshot, from: file)
    }
}
