import CAPNSOpenSSL

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// Where the machine keeps its trust roots: a file with all of them, and directories in which each has a file named
/// after the hash of its subject. Roots are read when a server's chain asks for one, for of some 140 a client needs one
/// or two: OpenSSL's own way reads the file whole, 824 KB and 24 ms for each context.
package struct SystemTrustRoots: Sendable, Hashable {
    package var file: String?
    /// Separated by colons, as in `SSL_CERT_DIR`.
    package var directories: String?

    package init(file: String? = nil, directories: String? = nil) {
        self.file = file
        self.directories = directories
    }

    /// What OpenSSL would take (it honours `SSL_CERT_FILE` and `SSL_CERT_DIR`), then the places of distributions whose
    /// OpenSSL was built for another one.
    ///
    /// - Returns: nil if there are none.
    static func find() -> SystemTrustRoots? {
        let file = environment("SSL_CERT_FILE") ?? String(cString: X509_get_default_cert_file())
        let directories = environment("SSL_CERT_DIR") ?? String(cString: X509_get_default_cert_dir())
        let found = SystemTrustRoots(
            file: isReadable(file) ? file : nil,
            directories: directories.split(separator: ":").contains { hasEntries(String($0)) } ? directories : nil
        )
        if found.file != nil || found.directories != nil { return found }
        guard environment("SSL_CERT_FILE") == nil, environment("SSL_CERT_DIR") == nil else { return nil }
        let elsewhere = [
            "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
            "/etc/ssl/cert.pem",
        ]
        return elsewhere.first(where: isReadable).map { SystemTrustRoots(file: $0) }
    }

    /// Has `store` find these roots.
    func add(to store: OpaquePointer?) {
        let own = Self.certificates(in: store)
        var lookups: [OpaquePointer] = []
        if let file = self.file {
            if let bundle = TrustBundle(file: file) {
                bundle.add(to: store).map { lookups.append($0) }
            } else {
                // Not what a bundle usually is (revocation lists in it, another form): OpenSSL knows best.
                _ = X509_STORE_load_file(store, file)
            }
        }
        if let directories = self.directories {
            _ = X509_STORE_load_path(store, directories)
            X509_STORE_add_lookup(store, X509_LOOKUP_hash_dir()).map { lookups.append($0) }  // the one that is there
        }
        // OpenSSL asks for a subject only while the store holds no certificate with it.
        for certificate in own {
            for lookup in lookups { Self.load(X509_get_subject_name(certificate.pointer), by: lookup) }
        }
        // What a damaged file leaves in the queue is no error of the caller's.
        ERR_clear_error()
    }

    private static func certificates(in store: OpaquePointer?) -> [X509Certificate] {
        let stack = X509_STORE_get1_all_certs(store)
        defer { capns_x509_stack_free(stack) }
        return (0..<capns_x509_stack_count(stack)).compactMap { capns_x509_stack_copy(stack, $0) }
            .map(X509Certificate.init(owning:))
    }

    /// Has a lookup put all certificates with this subject into its store.
    private static func load(_ subject: OpaquePointer?, by lookup: OpaquePointer) {
        let result = X509_OBJECT_new()
        if X509_LOOKUP_by_subject(lookup, X509_LU_X509, subject, result) == 1 {
            // A lookup lends its answer, and the object's end gives a reference back.
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

    private static func hasEntries(_ path: String) -> Bool {
        guard let directory = opendir(path) else { return false }
        defer { closedir(directory) }
        var entries = 0
        while entries < 3, readdir(directory) != nil { entries += 1 }
        return entries > 2  // more than "." and ".."
    }
}
