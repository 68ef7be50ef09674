import APNSPool
import APNSTesting
import Foundation
import Logging
import Testing

@testable import Outbox

@Test func aFileStaysUntilItsPushHasAFinalOutcome() async throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "outbox-\(UUID())")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    for token in ["00fa11ce", "00fa11cf"] {
        let json = #"{"deviceToken": "\#(token)", "title": "Full moon tonight"}"#
        try Data(json.utf8).write(to: folder.appending(path: "\(token).json"))
    }
    let sender = RecordingPushSender { _, token in
        if token.hexadecimal == "00fa11ce" { return .accepted(Receipt(apnsID: .random())) }
        return .failed(PushError(code: .queueFull, certainty: .notSent, message: "the queue is full"))
    }
    try await FolderService(folder: folder, sender: sender, logger: Logger(label: "test")).sendFiles()
    #expect(sender.pushes.count == 2)
    #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["00fa11cf.json"])
}
