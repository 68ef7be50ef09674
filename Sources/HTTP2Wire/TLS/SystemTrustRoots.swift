import CAPNSOpenSSL

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// The locations of the machine's trust roots: a file with all of them, and directories in which each root has a file
/// named after the hash of its subject.
///
/// OpenSSL reads a file in such a directory only when a server's chain needs that root, and a client needs one or two
/// of some 140 roots. A file with all roots is read completely, which takes 1.5 MB and 40 ms.
package struct SystemTrustRoots: Sendable, Hashable {
    package var file: String?
    /// Separated by colons, as in `SSL_CERT_DIR`.
    package var directories: String?

    package init(file: String? = nil, directories: String? = nil) {
        self.file = file
        self.directories = directories
    }

    /// Finds the machine's trust roots: first in the locations that OpenSSL would use (it honours `SSL_CERT_FILE` and
    /// `SSL_CERT_DIR`), then in the locations of distributions for which this OpenSSL was not built.
    ///
    /// - Returns: `nil` if there are none.
    static func find() -> SystemTrustRoots? {
        let file = self.environment("SSL_CERT_FILE") ?? String(cString: X509_get_default_cert_file())
        let directories = self.environment("SSL_CERT_DIR") ?? String(cString: X509_get_default_cert_dir())
        let found = SystemTrustRoots(
            file: self.isReadable(file) ? file : nil,
            directories: directories.split(separator: ":").contains { !self.entries(of: String($0)).isEmpty }
                ? directories : nil
        )
        if found.file != nil || found.directories != nil { return found }
        guard self.environment("SSL_CERT_FILE") == nil, self.environment("SSL_CERT_DIR") == nil else { return nil }
        let elsewhere = [
            "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
            "/etc/ssl/cert.pem",
        ]
        return elsewhere.first(where: self.isReadable).map { SystemTrustRoots(file: $0) }
    }

    /// Makes `store` find these roots, in addition to those that it already holds.
    func add(to store: OpaquePointer) {
        let own = Self.certificates(in: store)
        if let file = self.file, !self.directoriesHold(file) { _ = X509_STORE_load_file(store, file) }
        if let directories = self.directories {
            _ = X509_STORE_load_path(store, directories)
            // OpenSSL searches the directory for a subject only if the store holds no certificate with that subject.
            // Therefore the roots with the subjects of the store's own certificates are loaded now.
            // `X509_STORE_load_path` has added this lookup already, so this call only returns it.
            if let lookup = X509_STORE_add_lookup(store, X509_LOOKUP_hash_dir()) {
                for certificate in own { Self.load(X509_get_subject_name(certificate.pointer), by: lookup) }
            }
        }
        // Errors of unreadable files do not concern the caller.
        OpenSSLErrors.clear()
    }

    /// Whether the directories contain every root of the file, as after Debian's `update-ca-certificates`, so that the
    /// file need not be read. This is false if a root was appended to the file only.
    private func directoriesHold(_ file: String) -> Bool {
        guard let directories = self.directories else { return false }
        var missing = Self.blocks(in: file)
        for directory in directories.split(separator: ":") {
            for name in Self.entries(of: String(directory)) where Self.isHash(name) {
                missing.subtract(Self.blocks(in: "\(directory)/\(name)"))
            }
        }
        return missing.isEmpty
    }

    /// Whether OpenSSL may search for a certificate under this file name, such as `4a6481c9.0`.
    private static func isHash(_ name: String) -> Bool {
        let parts = name.split(separator: ".", omittingEmptySubsequences: false)
        return parts.count == 2 && parts[0].utf8.count == 8 && parts[0] == parts[0].lowercased()
            && UInt32(parts[0], radix: 16) != nil && UInt32(parts[1]) != nil
    }

    /// Hashes of the PEM blocks in a file, up to the first damaged one. OpenSSL loads nothing from a damaged file.
    private static func blocks(in file: String) -> Set<Int> {
        guard let bio = BIO_new_file(file, "r") else { return [] }
        defer { BIO_free(bio) }
        var found: Set<Int> = []
        var label: UnsafeMutablePointer<CChar>?
        var header: UnsafeMutablePointer<CChar>?
        var der: UnsafeMutablePointer<UInt8>?
        var count = 0
        while PEM_read_bio(bio, &label, &header, &der, &count) == 1 {
            var hasher = Hasher()
            hasher.combine(bytes: UnsafeRawBufferPointer(start: der, count: count))
            found.insert(hasher.finalize())
            capns_free(label)
            capns_free(header)
            capns_free(der)
        }
        return found
    }

    private static func certificates(in store: OpaquePointer?) -> [X509Certificate] {
        let stack = X509_STORE_get1_all_certs(store)
        defer { capns_x509_stack_free(stack) }
        return (0..<capns_x509_stack_count(stack)).compactMap { capns_x509_stack_copy(stack, $0) }
            .map(X509Certificate.init(owning:))
    }

    /// Makes a lookup add all certificates with this subject to its store.
    private static func load(_ subject: OpaquePointer?, by lookup: OpaquePointer) {
        guard let result = X509_OBJECT_new() else { return }
        if X509_LOOKUP_by_subject(lookup, X509_LU_X509, subject, result) == 1 {
            // The lookup lends its result without a reference, but freeing the object releases one.
            X509_up_ref(X509_OBJECT_get0_X509(result))
        }
        X509_OBJECT_free(result)
    }

    private static func environment(_ name: String) -> String? {
        getenv(name).map { String(cString: $0) }
    }

    private static func isReadable(_ path: String) -> Bool {
        access(path, R_OK) == 0
    }

    private static func entries(of path: String) -> [String] {
        guard let directory = opendir(path) else { return [] }
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            names.append(
                withUnsafeBytes(of: &entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
            )
        }
        return names.filter { $0 != "." && $0 != ".." }
    }
}
