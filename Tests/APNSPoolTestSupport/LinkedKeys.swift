import APNSSimulator
import Foundation

/// Two keys of one team in files, and a link to the first one's file.
struct LinkedKeys {
    static let team = "ABBM6U9RM5"
    let keys = [SimulatedKey(teamID: Self.team), SimulatedKey(teamID: Self.team)]
    private let folder = FileManager.default.temporaryDirectory.appending(path: "keys-\(UUID())")

    init() throws {
        try FileManager.default.createDirectory(at: self.folder, withIntermediateDirectories: true)
        for key in self.keys { try Data(key.p8.utf8).write(to: self.folder.appending(path: key.fileName)) }
        try self.link(to: self.keys[0])
    }

    /// The link.
    var file: String { self.folder.appending(path: "current").path }

    /// The files that the link can lead to.
    var targets: [String] { self.keys.map { self.folder.appending(path: $0.fileName).path } }

    /// Lets the link lead to the second key, as a mounted secret does.
    func change() throws {
        try FileManager.default.removeItem(atPath: self.file)
        try self.link(to: self.keys[1])
    }

    private func link(to key: SimulatedKey) throws {
        try FileManager.default.createSymbolicLink(atPath: self.file, withDestinationPath: key.fileName)
    }

    func remove() { try? FileManager.default.removeItem(at: self.folder) }
}
