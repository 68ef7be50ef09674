import Foundation
import Testing

@testable import APNSRelay

struct FileChangesTests {
    private func contents(_ texts: [String: String?]) throws -> FileChanges.Contents {
        let folder = FileManager.default.temporaryDirectory.appending(path: "files-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        var contents: FileChanges.Contents = [:]
        for (name, text) in texts {
            let file = folder.appending(path: name)
            if let text { try Data(text.utf8).write(to: file) }
            contents.updateValue(FileChanges.contents(of: [file.path])[file.path] ?? nil, forKey: name)
        }
        return contents
    }

    @Test("A change counts once, after two observations that agree")
    func stable() throws {
        let (old, new) = (try self.contents(["a": "1"]), try self.contents(["a": "2"]))
        var changes = FileChanges(old)
        #expect(
            [old, new, new, new, old, old].map { changes.observe($0) } == [false, false, true, false, false, true]
        )
    }

    @Test("A file that is still being written is waited for, and one that has its old contents again is no change")
    func unstable() throws {
        let versions = try ["1", "2", "23", "234"].map { try self.contents(["a": $0]) }
        var changes = FileChanges(versions[0])
        let observed = [1, 2, 3, 3, 1, 3].map { changes.observe(versions[$0]) }
        #expect(observed == [false, false, false, true, false, false])
    }

    @Test("Files that appear or disappear are changes, and another list of files is none")
    func missing() throws {
        let states = try [["a": "1"], ["a": nil], ["a": "1", "b": "1"], ["b": "2"]].map { try self.contents($0) }
        var changes = FileChanges(states[0])
        for state in [1, 0] { #expect([state, state].map { changes.observe(states[$0]) } == [false, true]) }
        #expect([2, 2, 0, 0, 2, 2].map { changes.observe(states[$0]) }.allSatisfy { !$0 })
        #expect([3, 3].map { changes.observe(states[$0]) } == [false, true])
    }
}
