package import Foundation
import PushQueueConformance

/// A small file system in memory that can be filled, for tests. It ends with the process of the tests.
package final class SmallDisk: Sendable {
    package let directory: URL
    private let process = Process()
    private let life = Pipe.make()

    /// Whether this process may mount file systems.
    package static let isPossible = (try? SmallDisk(megabytes: 1)) != nil

    package init(megabytes: Int) throws {
        self.directory = URL(fileURLWithPath: "/tmp").appending(path: "disk-\(UUID().uuidString.prefix(8))")
        try FileManager.default.createDirectory(at: self.directory, withIntermediateDirectories: true)
        let output = Pipe.make()
        self.process.executableURL = URL(fileURLWithPath: "/bin/sh")
        self.process.arguments = [
            "-c",
            #"""
            trap '' INT TERM
            mount -t tmpfs -o "size=$2m,mode=700" tmpfs "$1" && echo mounted && exec >&- && read -r line
            umount -l "$1"; rmdir "$1"
            """#, "sh", self.directory.path, "\(megabytes)",
        ]
        self.process.standardInput = self.life
        self.process.standardOutput = output
        self.process.standardError = FileHandle.nullDevice
        try self.process.start()
        guard output.fileHandleForReading.readDataToEndOfFile() == Data("mounted\n".utf8) else {
            throw PostgresServer.Failure(description: "this process cannot mount a file system")
        }
        if let owner = PostgresServer.account { try PostgresServer.run("/bin/chown", [owner, self.directory.path]) }
    }

    deinit {
        try? self.life.fileHandleForWriting.close()
        self.process.waitUntilExit()
    }

    private var ballast: String { self.directory.appending(path: "ballast").path }

    /// Leaves no room.
    package func fill() throws {
        try PostgresServer.run("/bin/sh", ["-c", #"cat /dev/zero >>"$1" 2>/dev/null || true"#, "sh", self.ballast])
    }

    /// Leaves this much room.
    package func fill(leaving megabytes: Int) throws {
        let disk = try FileManager.default.attributesOfFileSystem(forPath: self.directory.path)
        let free = (disk[.systemFreeSize] as? NSNumber)?.intValue ?? 0
        try PostgresServer.run(
            "/bin/sh",
            ["-c", #"head -c "$2" /dev/zero >>"$1""#, "sh", self.ballast, "\(max(free - megabytes << 20, 0))"]
        )
    }

    /// Removes what has filled the disk.
    package func empty() throws { try FileManager.default.removeItem(atPath: self.ballast) }
}
