import CAPNSOpenSSL
import Foundation
import TestSupport
import Testing

@testable import HTTP2Wire

/// The machine's trust roots are read when a chain asks for them: the same are trusted as if all had been read.
struct TrustBundleTests {
    /// A directory of its own with a bundle in it.
    private final class Folder {
        let path = NSTemporaryDirectory() + "trust-bundle-" + UUID().uuidString
        var bundle: String { self.path + "/bundle.pem" }

        init(_ text: String) throws {
            try FileManager.default.createDirectory(atPath: self.path, withIntermediateDirectories: true)
            try text.write(toFile: self.bundle, atomically: true, encoding: .utf8)
        }

        deinit { try? FileManager.default.removeItem(atPath: self.path) }

        var roots: SystemTrustRoots { SystemTrustRoots(file: self.bundle) }

        var tls: TLSConfiguration {
            var tls = TLSConfiguration()
            tls.systemTrustRoots = self.roots
            return tls
        }
    }

    private func server(of authority: CertificateAuthority) async throws -> EchoServer {
        let identity = try authority.issue(names: ["localhost"])
        return try await EchoServer.start { tls in
            tls.certificateChainPEM = identity.certificateChainPEM
            tls.privateKeyPEM = identity.privateKeyPEM
        }
    }

    private func beginning(_ server: EchoServer, _ tls: TLSConfiguration) async -> ConnectionProbe.Beginning {
        let probe = ConnectionProbe(host: "localhost", port: server.port, tls: tls)
        let beginning = await probe.open()
        await probe.close()
        return beginning
    }

    private let ready = ConnectionProbe.Beginning.ready(maxConcurrentStreams: 100)

    /// Other names, other text between the blocks, other line ends; three roots of one name, of which one is right.
    @Test func theOneRootThatIsAskedForIsFound() async throws {
        let strangers = try (0..<40).map { try CertificateAuthority(commonName: "Root \($0) Zürich") }
        let namesakes = try (0..<3).map { _ in try CertificateAuthority() }
        var text = "# Grasscove's roots\n\n"
        for authority in strangers { text += "# a root\n\(authority.certificatePEM)\n\n" }
        for authority in namesakes { text += authority.certificatePEM.replacing("\n", with: "\r\n") }
        let folder = try Folder(text + "# the end, without a line end")
        #expect(TrustBundle.index(Array(text.utf8))?.count == 43)
        for authority in [strangers[0], strangers[17], strangers[39]] + namesakes {
            let server = try await self.server(of: authority)
            #expect(await self.beginning(server, folder.tls) == self.ready)
            await server.stop()
        }
        let server = try await self.server(of: CertificateAuthority(commonName: "Root 17"))
        #expect(await self.beginning(server, folder.tls) == .closed(.certificateUntrusted))
        await server.stop()
    }

    @Test func manyConnectionsAskForTheSameRootAtOnce() async throws {
        let authorities = try (0..<8).map { _ in try CertificateAuthority() }
        let folder = try Folder(authorities.map(\.certificatePEM).joined())
        let server = try await self.server(of: authorities[5])
        for _ in 0..<5 {
            let context = try TLSContext(.client, configuration: folder.tls)
            let beginnings = await withTaskGroup { group in
                for _ in 0..<16 {
                    group.addTask {
                        let probe = ConnectionProbe(host: "localhost", port: server.port, context: .success(context))
                        defer { withExtendedLifetime(probe) {} }
                        let beginning = await probe.open()
                        await probe.close()
                        return beginning
                    }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
            #expect(beginnings == Array(repeating: self.ready, count: 16))
        }
        await server.stop()
    }

    /// As a distribution's update does, or a process that gives up its rights.
    @Test func aFileThatIsGoneAfterwardsStillServes() async throws {
        let authority = try CertificateAuthority()
        let folder = try Folder(authority.certificatePEM)
        let server = try await self.server(of: authority)
        let context = try TLSContext(.client, configuration: folder.tls)
        try FileManager.default.removeItem(atPath: folder.bundle)
        let probe = ConnectionProbe(host: "localhost", port: server.port, context: .success(context))
        #expect(await probe.open() == self.ready)
        await probe.close()
        await server.stop()
    }

    @Test func aFileThatIsOverwrittenInPlaceIsNotBelieved() async throws {
        let authority = try CertificateAuthority()
        for text in [
            "", String(repeating: "x", count: 10_000), try CertificateAuthority(commonName: "B").certificatePEM,
        ] {
            let folder = try Folder(authority.certificatePEM)
            let server = try await self.server(of: authority)
            let context = try TLSContext(.client, configuration: folder.tls)
            try text.write(toFile: folder.bundle, atomically: false, encoding: .utf8)
            let probe = ConnectionProbe(host: "localhost", port: server.port, context: .success(context))
            #expect(await probe.open() == .closed(.certificateUntrusted))
            await server.stop()
        }
    }

    @Test("A bundle that is rewritten in place serves with what it holds now")
    func rewrittenInPlace() async throws {
        let authority = try CertificateAuthority()
        let stranger = try CertificateAuthority(commonName: "Another root with a longer name")
        let folder = try Folder(authority.certificatePEM)
        let server = try await self.server(of: authority)
        let context = try TLSContext(.client, configuration: folder.tls)
        try (stranger.certificatePEM + authority.certificatePEM)
            .write(toFile: folder.bundle, atomically: false, encoding: .utf8)
        let probe = ConnectionProbe(host: "localhost", port: server.port, context: .success(context))
        #expect(await probe.open() == self.ready)
        await probe.close()
        await server.stop()
    }

    @Test(
        "A root of the user's does not hide a system root of the same name",
        arguments: ["text", "file"],
        ["bundle", "directory"]
    )
    func sameName(own: String, system: String) async throws {
        let mine = try CertificateAuthority()
        let theirs = try CertificateAuthority()
        let folder = try Folder(system == "bundle" ? theirs.certificatePEM : "")
        var tls = TLSConfiguration()
        if system == "bundle" {
            tls.systemTrustRoots = folder.roots
        } else {
            try theirs.certificatePEM.write(
                toFile: folder.path + "/" + (try self.hashName(theirs)),
                atomically: true,
                encoding: .utf8
            )
            tls.systemTrustRoots = SystemTrustRoots(directories: folder.path)
        }
        if own == "text" {
            tls.caPEM = mine.certificatePEM
        } else {
            tls.caFile = folder.path + "/mine.pem"
            try mine.certificatePEM.write(toFile: folder.path + "/mine.pem", atomically: true, encoding: .utf8)
        }
        for authority in [mine, theirs] {
            let server = try await self.server(of: authority)
            #expect(await self.beginning(server, tls) == self.ready)
            await server.stop()
        }
        let server = try await self.server(of: CertificateAuthority())
        #expect(await self.beginning(server, tls) == .closed(.certificateUntrusted))
        await server.stop()
    }

    /// The name that OpenSSL looks for in a directory.
    private func hashName(_ authority: CertificateAuthority) throws -> String {
        let hash = try #require(TrustBundle.index(Array(authority.certificatePEM.utf8))?.first?.subjectHash)
        let digits = String(hash, radix: 16)
        return String(repeating: "0", count: 8 - digits.count) + digits + ".0"
    }

    /// Debian's `c_rehash` form: a file in the directory, named after the hash.
    @Test func aDirectoryOfHashesServesBesideTheFile() async throws {
        let authority = try CertificateAuthority(commonName: "In the directory")
        let folder = try Folder(try CertificateAuthority(commonName: "In the file").certificatePEM)
        let name = folder.path + "/" + (try self.hashName(authority))
        try authority.certificatePEM.write(toFile: name, atomically: true, encoding: .utf8)
        let server = try await self.server(of: authority)
        var tls = folder.tls
        #expect(await self.beginning(server, tls) == .closed(.certificateUntrusted))
        tls.systemTrustRoots?.directories = "/nowhere:" + folder.path
        #expect(await self.beginning(server, tls) == self.ready)
        await server.stop()
    }

    /// A bundle with a revocation list is read whole, as before.
    @Test func aFileWithOtherThingsIsLeftToOpenSSL() async throws {
        let authority = try CertificateAuthority()
        let folder = try Folder(authority.certificatePEM)
        let key = folder.path + "/key.pem"
        let identity = try authority.issue(names: ["localhost"])
        try identity.privateKeyPEM.write(toFile: key, atomically: true, encoding: .utf8)
        try "[ca]\ndefault_ca=d\n[d]\ndatabase=\(folder.path)/index\ndefault_md=sha256\n"
            .write(toFile: folder.path + "/ca.cnf", atomically: true, encoding: .utf8)
        try "".write(toFile: folder.path + "/index", atomically: true, encoding: .utf8)
        try identity.certificateChainPEM.write(toFile: folder.path + "/leaf.pem", atomically: true, encoding: .utf8)
        let list = folder.path + "/list.pem"
        let arguments = [
            "openssl", "ca", "-config", folder.path + "/ca.cnf", "-gencrl", "-keyfile", key, "-cert",
            folder.path + "/leaf.pem", "-crldays", "1", "-out", list,
        ]
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = arguments
        process.standardError = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        try #require(process.terminationStatus == 0)
        let mixed = authority.certificatePEM + (try String(contentsOfFile: list, encoding: .utf8))
        try mixed.write(toFile: folder.bundle, atomically: true, encoding: .utf8)

        #expect(TrustBundle(file: folder.bundle) == nil)
        let server = try await self.server(of: authority)
        #expect(await self.beginning(server, folder.tls) == self.ready)
        await server.stop()
    }

    @Test func noBundleAtAll() throws {
        let folder = try Folder("no certificate here\n")
        #expect(TrustBundle(file: folder.bundle) == nil)
        #expect(TrustBundle(file: folder.path) == nil)
        #expect(TrustBundle(file: folder.path + "/nothing.pem") == nil)
        let key = try CertificateAuthority().issue(names: ["a"]).privateKeyPEM
        let certificate = try CertificateAuthority().certificatePEM
        #expect(TrustBundle.index(Array((certificate + key).utf8)) == nil)
        #expect(TrustBundle.index(Array(certificate.dropLast(40).utf8)) == nil)
        #expect(TrustBundle.index(Array((certificate + "-----BEGIN CERTIFICATE-----\nMAA=\n").utf8)) == nil)
        #expect(
            TrustBundle.index(
                Array((certificate + "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n").utf8)
            )
                == nil
        )
    }

    /// Whatever the bytes are, nothing traps, and an entry lies within the text.
    @Test func anyBytes() throws {
        let text = Array(try (0..<3).map { _ in try CertificateAuthority().certificatePEM }.joined().utf8)
        var random = SeededRandom()
        let seed = random.seed
        for _ in 0..<2000 {
            var bytes = text
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                switch Int.random(in: 0..<3, using: &random) {
                case 0:
                    bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
                case 1: bytes.removeSubrange(Int.random(in: 0..<bytes.count, using: &random)...)
                default:
                    let start = Int.random(in: 0..<bytes.count, using: &random)
                    bytes.removeSubrange(start..<min(bytes.count, start + 30))
                }
                if bytes.isEmpty { break }
            }
            for entry in TrustBundle.index(bytes) ?? [] {
                #expect(entry.offset >= 0 && entry.length > 0 && entry.offset + entry.length <= bytes.count, "\(seed)")
            }
        }
    }

    /// The bundle of the machine that runs this, where it has one: every root is found by its subject.
    @Test func theMachinesOwnBundle() throws {
        guard let file = SystemTrustRoots.find()?.file, let text = FileManager.default.contents(atPath: file) else {
            return
        }
        let marks = String(decoding: text, as: UTF8.self).components(separatedBy: "-----BEGIN ").count - 1
        let entries = try #require(TrustBundle.index(Array(text)))
        #expect(entries.count == marks)
        let bundle = try #require(TrustBundle(file: file))
        for certificate in try PEM.certificates(in: String(decoding: text, as: UTF8.self), code: .trustRootsUnreadable)
        {
            let found = bundle.certificates(named: X509_get_subject_name(certificate.pointer))
            #expect(found.contains { X509_cmp($0.pointer, certificate.pointer) == 0 })
        }
    }
}
