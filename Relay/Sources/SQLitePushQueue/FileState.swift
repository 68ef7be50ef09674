/// The sizes of a queue's files, and the room on their disk.
package struct FileState: Sendable, Hashable {
    /// The size of the database, in bytes.
    package var databaseBytes: Int
    /// The size of its write-ahead log, in bytes. It grows while a reader, such as a backup, keeps an old snapshot.
    package var logBytes: Int
    package var disk: DiskRoom

    package init(databaseBytes: Int, logBytes: Int, disk: DiskRoom) {
        self.databaseBytes = databaseBytes
        self.logBytes = logBytes
        self.disk = disk
    }
}
