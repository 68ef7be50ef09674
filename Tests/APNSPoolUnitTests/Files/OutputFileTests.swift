import Foundation
import Testing

@_spi(Relay) @testable import APNSPool
@testable import APNSPoolTestSupport

struct OutputFileTests {
    @Test("Only a regular file may be overwritten")
    func kinds() {
        #expect(OutputFile.kind(ofMode: UInt32(S_IFREG) | 0o644) == nil)
        #expect(OutputFile.kind(ofMode: UInt32(S_IFDIR) | 0o755) == "a folder")
        #expect(OutputFile.kind(ofMode: UInt32(S_IFIFO) | 0o600) == "a pipe")
        #expect(OutputFile.kind(ofMode: UInt32(S_IFSOCK) | 0o600) == "a socket")
        #expect(OutputFile.kind(ofMode: UInt32(S_IFCHR) | 0o666) == "a device")
        #expect(OutputFile.kind(ofMode: UInt32(S_IFBLK) | 0o660) == "a device")
    }

    @Test("A client is not created if its token file holds something else")
    func foreignTokenFile() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let list = folder.appendingPathComponent("devices.txt")
        try Data("740f4707bebcf74f\n".utf8).write(to: list)
        var authentication = APNSAuthentication.withoutToken
        authentication.tokenSource = SharedFileTokenSource(path: list.path)
        let error = #expect(throws: APNSConfigurationError.self) { try authentication.resolve(wallNow: 0) }
        #expect(error?.code == .outputRefused && error?.setting == "authentication.tokenSource")
        #expect(try Data(contentsOf: list) == Data("740f4707bebcf74f\n".utf8))
    }

    @Test("A file has one identity, whatever path leads to it, even before it exists")
    func identities() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let file = folder.appendingPathComponent("file").path
        let link = folder.appendingPathComponent("link").path
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: "file")
        #expect(OutputFile(link).path == file)
        #expect(FileIdentity(link) == FileIdentity(file))
        #expect(FileIdentity(folder.path + "/./file") == FileIdentity(file))
        #expect(FileIdentity(folder.appendingPathComponent("other").path) != FileIdentity(file))
        try Data().write(to: URL(fileURLWithPath: file))
        #expect(FileIdentity(link) == FileIdentity(file))
        #expect(FileIdentity(folder.path + "/nowhere/file") == nil)
        let circle = folder.appendingPathComponent("circle").path
        try FileManager.default.createSymbolicLink(atPath: circle, withDestinationPath: "circle")
        #expect(OutputFile(circle).refusal(purpose: "x") { _ in true }?.contains("circle") == true)
    }
}
