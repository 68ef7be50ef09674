import CAPNSOpenSSL
import Foundation
import TestSupport
import Testing

@testable import APNSTransport

/// Trust roots are read once for each set. From a directory, only the roots that a chain needs are read.
struct TrustStoreTests {
    /// A temporary directory with a bundle of certificates in it.
    private final class Folder {
        let path = NSTemporaryDirectory() + "trust-store-" + UUID().uuidString
        var bundle: String { self.path + "/bundle.pem" }

        init(_ text: String) throws {
            try FileManager.default.createDirectory(atPath: self.path, withIntermediateDirectories: true)
            try self.write(text)
        }

        deinit { try? FileManager.default.removeItem(atPath: self.path) }

        func write(_ text: String, to name: String = "bundle.pem", inPlace: Bool = false) throws {
            try text.write(toFile: "\(self.path)/\(name)", atomically: !inPlace, encoding: .utf8)
        }

        /// Adds a root to the directory in Debian's form: a file named after the hash of its subject.
        func addHashed(_ authority: CertificateAuthority) throws {
            let certificate = try #require(
                try PEM.certificates(in: authority.certificatePEM, code: .trustRootsUnreadable).first
            )
            let hash = X509_NAME_hash_ex(X509_get_subject_name(certificate.pointer), nil, nil, nil)
            let digits = String(hash, radix: 16)
            try self.write(
                authority.certificatePEM,
                to: String(repeating: "0", count: 8 - digits.count) + digits + ".0"
            )
        }

        var tls: TLSConfiguration {
            var tls = TLSConfiguration()
            tls.systemTrustRoots = .file(self.bundle)
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

    private func beginning(_ server: EchoServer, _ context: TLSContext) async -> ConnectionProbe.Beginning {
        let probe = ConnectionProbe(host: "localhost", port: server.port, context: .success(context))
        let beginning = await probe.open()
        await probe.close()
        return beginning
    }

    private func beginning(_ server: EchoServer, _ tls: TLSConfiguration) async throws -> ConnectionProbe.Beginning {
        await self.beginning(server, try TLSContext(.client, configuration: tls))
    }

    /// The number of certificates that a context holds in memory.
    private func count(_ context: TLSContext) throws -> Int {
        let certificates = X509_STORE_get1_all_certs(try #require(context.trustStore).pointer)
        defer { capns_x509_stack_free(certificates) }
        return Int(capns_x509_stack_count(certificates))
    }

    private let ready = ConnectionProbe.Beginning.ready(maxConcurrentStreams: 100)

    /// The file has many names, text between the blocks, two kinds of line ends, and three roots with one name.
    @Test("A root is found among others in a file, also among roots of the same name")
    func rootInFile() async throws {
        let strangers = try (0..<40).map { try CertificateAuthority(commonName: "Root \($0) Zürich") }
        let namesakes = try (0..<3).map { _ in try CertificateAuthority() }
        var text = "# Grasscove's roots\n\n"
        for authority in strangers { text += "# a root\n\(authority.certificatePEM)\n\n" }
        for authority in namesakes { text += authority.certificatePEM.replacing("\n", with: "\r\n") }
        let folder = try Folder(text + "# the end, without a line end")
        for authority in [strangers[0], strangers[17], strangers[39]] + namesakes {
            let server = try await self.server(of: authority)
            #expect(try await self.beginning(server, folder.tls) == self.ready)
            await server.stop()
        }
        let server = try await self.server(of: CertificateAuthority(commonName: "Root 17"))
        #expect(try await self.beginning(server, folder.tls) == .closed(.certificateUntrusted))
        await server.stop()
    }

    @Test("Many connections find the same root in a directory at once")
    func manyConnections() async throws {
        let authorities = try (0..<8).map { try CertificateAuthority(commonName: "Root \($0)") }
        let folder = try Folder("")
        for authority in authorities { try folder.addHashed(authority) }
        var tls = TLSConfiguration()
        tls.systemTrustRoots = .directories("/nowhere:" + folder.path)
        let server = try await self.server(of: authorities[5])
        for _ in 0..<5 {
            let context = try TLSContext(.client, configuration: tls)
            let beginnings = await withTaskGroup { group in
                for _ in 0..<16 { group.addTask { await self.beginning(server, context) } }
                return await group.reduce(into: []) { $0.append($1) }
            }
            #expect(beginnings == Array(repeating: self.ready, count: 16))
        }
        await server.stop()
    }

    @Test("Contexts with the same roots share one store, which is freed with the last context")
    func sharing() throws {
        let authority = try CertificateAuthority()
        let folder = try Folder(authority.certificatePEM)
        var withFile = folder.tls
        withFile.caFile = folder.bundle
        var withText = folder.tls
        withText.caPEM = authority.certificatePEM
        var contexts = try (0..<20).flatMap { _ in
            try [folder.tls, withFile, withText].map { try TLSContext(.client, configuration: $0) }
        }
        #expect(Set(contexts.compactMap { $0.trustStore.map { ObjectIdentifier($0) } }).count == 3)
        weak var store: TrustStore?
        store = contexts[0].trustStore
        #expect(store != nil)
        contexts.removeAll()
        #expect(store == nil)
    }

    @Test("A server that requests no certificate has no trust store")
    func server() throws {
        #expect(try TLSContext(.server, configuration: TLSConfiguration()).trustStore == nil)
    }

    @Test(
        "A client keeps the roots of a file that is removed, replaced or rewritten; the next client reads the new file"
    )
    func changedFile() async throws {
        let authority = try CertificateAuthority()
        let stranger = try CertificateAuthority(commonName: "Another root with a longer name")
        let server = try await self.server(of: authority)
        for change in ["removed", "replaced", "rewritten"] {
            for setting in ["system", "own"] {
                let folder = try Folder(authority.certificatePEM)
                var tls = folder.tls
                if setting == "own" {
                    tls.systemTrustRoots = nil
                    tls.trustsSystemRoots = false
                    tls.caFile = folder.bundle
                }
                let context = try TLSContext(.client, configuration: tls)
                if change == "removed" {
                    try FileManager.default.removeItem(atPath: folder.bundle)
                } else {
                    try folder.write(stranger.certificatePEM, inPlace: change == "rewritten")
                    #expect(try await self.beginning(server, tls) == .closed(.certificateUntrusted))
                }
                #expect(await self.beginning(server, context) == self.ready)
            }
        }
        await server.stop()
    }

    @Test("A user's roots count beside those of the machine", arguments: ["text", "file"], ["file", "directory"])
    func ownRoots(own: String, system: String) async throws {
        let mine = try CertificateAuthority(commonName: "Mine")
        let theirs = try CertificateAuthority(commonName: "Theirs")
        let folder = try Folder(system == "file" ? theirs.certificatePEM : "")
        var tls = folder.tls
        if system == "directory" {
            try folder.addHashed(theirs)
            tls.systemTrustRoots = .directories(folder.path)
        }
        if own == "text" {
            tls.caPEM = mine.certificatePEM
        } else {
            tls.caFile = folder.path + "/mine.pem"
            try folder.write(mine.certificatePEM, to: "mine.pem")
        }
        for authority in [mine, theirs] {
            let server = try await self.server(of: authority)
            #expect(try await self.beginning(server, tls) == self.ready)
            await server.stop()
        }
        let server = try await self.server(of: CertificateAuthority())
        #expect(try await self.beginning(server, tls) == .closed(.certificateUntrusted))
        await server.stop()
    }

    @Test("Of a directory, only the roots that a chain needs are read")
    func onlyWhatIsNeeded() async throws {
        let authorities = try (0..<3).map { try CertificateAuthority(commonName: "Root \($0)") }
        let folder = try Folder("")
        for authority in authorities { try folder.addHashed(authority) }
        var tls = folder.tls
        tls.systemTrustRoots = .directories(folder.path)
        let context = try TLSContext(.client, configuration: tls)
        #expect(try self.count(context) == 0)
        let server = try await self.server(of: authorities[1])
        #expect(await self.beginning(server, context) == self.ready)
        #expect(try self.count(context) == 1)
        await server.stop()
    }

    @Test("A file that also holds a revocation list is accepted")
    func revocationList() async throws {
        let authority = try CertificateAuthority()
        let folder = try Folder(authority.certificatePEM)
        let identity = try authority.issue(names: ["localhost"])
        try folder.write(identity.privateKeyPEM, to: "key.pem")
        try folder.write("[ca]\ndefault_ca=d\n[d]\ndatabase=\(folder.path)/index\ndefault_md=sha256\n", to: "ca.cnf")
        try folder.write("", to: "index")
        try folder.write(identity.certificateChainPEM, to: "leaf.pem")
        let list = folder.path + "/list.pem"
        let arguments = [
            "openssl", "ca", "-config", folder.path + "/ca.cnf", "-gencrl", "-keyfile", folder.path + "/key.pem",
            "-cert",
            folder.path + "/leaf.pem", "-crldays", "1", "-out", list,
        ]
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = arguments
        process.standardError = FileHandle.nullDevice
        try process.start()
        process.waitUntilExit()
        try #require(process.terminationStatus == 0)
        try folder.write(authority.certificatePEM + (try String(contentsOfFile: list, encoding: .utf8)))
        let server = try await self.server(of: authority)
        #expect(try await self.beginning(server, folder.tls) == self.ready)
        await server.stop()
    }

    @Test("A system file without a certificate causes no error, and no server is trusted")
    func noBundle() async throws {
        let server = try await self.server(of: CertificateAuthority())
        let folder = try Folder("no certificate here\n")
        for file in [folder.bundle, folder.path, folder.path + "/nothing.pem"] {
            var tls = TLSConfiguration()
            tls.systemTrustRoots = .file(file)
            #expect(try await self.beginning(server, tls) == .closed(.certificateUntrusted))
        }
        await server.stop()
    }

    /// Debian has all roots in a file, too.
    @Test("All the machine's roots can be looked up")
    func machineRoots() throws {
        guard SystemTrustRoots.find() != nil,
            let text = FileManager.default.contents(atPath: "/etc/ssl/certs/ca-certificates.crt")
        else { return }
        let context = try TLSContext(.client, configuration: TLSConfiguration())
        let store = try #require(context.trustStore)
        for certificate in try PEM.certificates(in: String(decoding: text, as: UTF8.self), code: .trustRootsUnreadable)
        {
            let verification = try #require(X509_STORE_CTX_new())
            defer { X509_STORE_CTX_free(verification) }
            try #require(X509_STORE_CTX_init(verification, store.pointer, certificate.pointer, nil) == 1)
            let result = X509_OBJECT_new()
            defer { X509_OBJECT_free(result) }
            let subject = X509_get_subject_name(certificate.pointer)
            #expect(X509_STORE_CTX_get_by_subject(verification, X509_LU_X509, subject, result) == 1)
            #expect(X509_NAME_cmp(X509_get_subject_name(X509_OBJECT_get0_X509(result)), subject) == 0)
        }
    }
}
