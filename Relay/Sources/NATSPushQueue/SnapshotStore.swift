#if NATS
    import APNSModel
    import CNATS
    import Foundation
    import JournalPushQueue
    import PushQueue

    /// The snapshots of a journal, in a stream of their own. All functions block.
    ///
    /// A snapshot consists of messages with its content (the parts) and a head, which is stored last and describes the
    /// snapshot. A process replaces the head only if it is still the one that the process has read. So if two processes
    /// replace it at once, only one of them succeeds.
    struct SnapshotStore {
        private struct Head {
            /// The name of the snapshot's journal.
            var journal: String
            var snapshot: JournalSnapshot
            /// Names the messages with the content; no two attempts to store a snapshot have the same.
            var id: APNSID
            var parts: UInt32
            /// The position of the head's message.
            var sequence: UInt64

            var bytes: [UInt8] {
                var writer = ByteWriter()
                writer.write(self.journal)
                writer.write(self.snapshot.sequence)
                writer.write(self.snapshot.journalBytes)
                writer.write(self.snapshot.size)
                writer.write(self.id)
                writer.write(self.parts)
                return writer.bytes
            }
        }

        private static let partSize = 512 * 1_024

        let context: JetStream
        let options: NATSOptions
        /// The name of the journal. A snapshot of another one counts for nothing.
        let journal: String

        private var headSubject: String { "\(self.options.snapshotSubject).head" }

        private func subject(_ id: APNSID) -> String { "\(self.options.snapshotSubject).\(id)" }

        func newest() throws(QueueError) -> JournalSnapshot? { try self.head().flatMap { self.ofThisJournal($0) } }

        private func ofThisJournal(_ head: Head) -> JournalSnapshot? {
            head.journal == self.journal ? head.snapshot : nil
        }

        private func head() throws(QueueError) -> Head? {
            guard let message = try self.context.lastMessage(self.options.snapshotStream, self.headSubject) else {
                return nil
            }
            var reader = ByteReader(message.bytes)
            do throws(MalformedBytes) {
                return Head(
                    journal: try reader.string(),
                    snapshot: JournalSnapshot(
                        sequence: try reader.integer(),
                        journalBytes: try reader.integer(),
                        size: try reader.integer()
                    ),
                    id: try reader.id(),
                    parts: try reader.integer(),
                    sequence: message.sequence
                )
            } catch {
                throw QueueError(code: .unusable, message: "The head of the snapshot cannot be read.")
            }
        }

        /// - Returns: false if the snapshot is not the newest one, or some of it is missing.
        func load(_ snapshot: JournalSnapshot, into file: String) throws(QueueError) -> Bool {
            guard let head = try self.head(), self.ofThisJournal(head) == snapshot else { return false }
            guard FileManager.default.createFile(atPath: file, contents: nil, attributes: [.posixPermissions: 0o600]),
                let handle = FileHandle(forWritingAtPath: file)
            else { throw Self.unavailable(file) }
            defer { try? handle.close() }
            for part in 0..<head.parts {
                let subject = "\(self.subject(head.id)).\(part)"
                guard let bytes = try self.context.message(self.options.snapshotStream, subject) else { return false }
                do {
                    try handle.write(contentsOf: bytes)
                } catch {
                    throw Self.unavailable(file)
                }
            }
            return true
        }

        func store(_ snapshot: JournalSnapshot, from file: String) throws(QueueError) {
            let head = try self.head()
            let old = head.flatMap { self.ofThisJournal($0) }
            if let old, old.sequence >= snapshot.sequence { return }
            guard try self.context.extent(self.options.stream).last >= snapshot.sequence else {
                throw QueueError(code: .unavailable, message: "The journal ends before the snapshot.")
            }
            guard let handle = FileHandle(forReadingAtPath: file) else { throw Self.unavailable(file) }
            defer { try? handle.close() }
            let id = APNSID.random()
            let first: UInt64
            do throws(QueueError) {
                let parts = try self.storeParts(id, handle, file)
                first = parts.first
                let new = Head(journal: self.journal, snapshot: snapshot, id: id, parts: parts.count, sequence: 0)
                _ = try self.context.publish(new.bytes, to: self.headSubject, after: head?.sequence ?? 0)
            } catch {
                // The storage is full, or another process was faster: delete the parts. If there was no response, the
                // head may still be stored and need its parts, so keep them. If it is not, the next snapshot deletes
                // them.
                if error.code != .undecided, try self.head()?.id != id {
                    try? self.context.purge(self.options.snapshotStream, subject: "\(self.subject(id)).*")
                }
                throw error
            }
            // Keep the entries after the old snapshot, for processes that are a little behind.
            if let old { try self.context.purge(self.options.stream, before: old.sequence + 1) }
            // Delete everything older, including what is left of snapshots that were not finished.
            if first > 1 { try self.context.purge(self.options.snapshotStream, before: first) }
        }

        /// - Returns: the position of the first part in the stream, 0 without parts, and their number.
        private func storeParts(
            _ id: APNSID,
            _ handle: FileHandle,
            _ file: String
        ) throws(QueueError) -> (first: UInt64, count: UInt32) {
            var first: UInt64 = 0
            var count: UInt32 = 0
            while true {
                let bytes: [UInt8]
                do {
                    bytes = Array(try handle.read(upToCount: Self.partSize) ?? Data())
                } catch {
                    throw Self.unavailable(file)
                }
                guard !bytes.isEmpty else { return (first, count) }
                let position = try self.context.publish(bytes, to: "\(self.subject(id)).\(count)", after: nil)
                if count == 0 { first = position }
                count += 1
            }
        }

        private static func unavailable(_ file: String) -> QueueError {
            QueueError(
                code: .unavailable,
                message: "\(file): a snapshot cannot be written or read. Check the disk and the permissions."
            )
        }
    }
#endif
