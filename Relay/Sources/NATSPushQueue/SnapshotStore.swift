#if NATS
    import CNATS
    import Foundation
    import JournalPushQueue
    import PushQueue

    /// The snapshots of a journal, in a stream of their own. All functions block.
    ///
    /// A snapshot consists of messages with its content and a head, which is stored last and describes the snapshot. If
    /// two processes replace the head at once, the sequence of its message makes sure that only one of them succeeds.
    struct SnapshotStore {
        private struct Head {
            var snapshot: JournalSnapshot
            var parts: UInt32
            /// The position of the head's message.
            var sequence: UInt64

            var bytes: [UInt8] {
                var writer = ByteWriter()
                writer.write(self.snapshot.sequence)
                writer.write(self.snapshot.journalBytes)
                writer.write(self.snapshot.size)
                writer.write(self.parts)
                return writer.bytes
            }
        }

        private static let partSize = 512 * 1_024

        let context: JetStream
        let options: NATSOptions

        private var headSubject: String { "\(self.options.snapshotSubject).head" }

        private func subject(_ snapshot: JournalSnapshot) -> String {
            "\(self.options.snapshotSubject).\(snapshot.sequence)"
        }

        func newest() throws(QueueError) -> JournalSnapshot? { try self.head()?.snapshot }

        private func head() throws(QueueError) -> Head? {
            guard let message = try self.context.lastMessage(self.options.snapshotStream, self.headSubject) else {
                return nil
            }
            var reader = ByteReader(message.bytes)
            do throws(MalformedBytes) {
                return Head(
                    snapshot: JournalSnapshot(
                        sequence: try reader.integer(),
                        journalBytes: try reader.integer(),
                        size: try reader.integer()
                    ),
                    parts: try reader.integer(),
                    sequence: message.sequence
                )
            } catch {
                throw QueueError(code: .unusable, message: "The head of the snapshot cannot be read.")
            }
        }

        /// - Returns: false if the snapshot is not the newest one, or some of it is missing.
        func load(_ snapshot: JournalSnapshot, into file: String) throws(QueueError) -> Bool {
            guard let head = try self.head(), head.snapshot == snapshot else { return false }
            guard FileManager.default.createFile(atPath: file, contents: nil, attributes: [.posixPermissions: 0o600]),
                let handle = FileHandle(forWritingAtPath: file)
            else { throw Self.unavailable(file) }
            defer { try? handle.close() }
            for part in 0..<head.parts {
                let subject = "\(self.subject(snapshot)).\(part)"
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
            let old = try self.head()
            if let old, old.snapshot.sequence >= snapshot.sequence { return }
            guard let handle = FileHandle(forReadingAtPath: file) else { throw Self.unavailable(file) }
            defer { try? handle.close() }
            do throws(QueueError) {
                let parts = try self.storeParts(of: snapshot, handle, file)
                let head = Head(snapshot: snapshot, parts: parts, sequence: 0)
                try self.context.publish(head.bytes, to: self.headSubject, after: old?.sequence ?? 0)
            } catch {
                // The storage is full, or another process was faster.
                try? self.context.purge(self.options.snapshotStream, subject: "\(self.subject(snapshot)).*")
                throw error
            }
            guard let old else { return }
            try self.context.purge(self.options.snapshotStream, subject: "\(self.subject(old.snapshot)).*")
            // Processes that are a little behind still read what the old snapshot does not contain.
            try self.context.purge(self.options.stream, upTo: old.snapshot.sequence)
        }

        private func storeParts(
            of snapshot: JournalSnapshot,
            _ handle: FileHandle,
            _ file: String
        ) throws(QueueError) -> UInt32 {
            var count: UInt32 = 0
            while true {
                let bytes: [UInt8]
                do {
                    bytes = Array(try handle.read(upToCount: Self.partSize) ?? Data())
                } catch {
                    throw Self.unavailable(file)
                }
                guard !bytes.isEmpty else { return count }
                try self.context.publish(bytes, to: "\(self.subject(snapshot)).\(count)", after: nil)
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
