import CAPNSOpenSSL

/// Where the machine's trust roots are.
package enum SystemTrustRoots: Sendable, Hashable {
    /// A file with all roots. It is read completely, which takes 1.5 MB and 40 ms.
    case file(String)
    /// Directories, separated by colons, in which each root has a file named after the hash of its subject. OpenSSL
    /// reads a file only when a server's chain needs its root, and a client needs one or two of some 140 roots.
    case directories(String)

    /// Finds the machine's trust roots: those that `SSL_CERT_FILE` or `SSL_CERT_DIR` names, or else the directory or the
    /// file that OpenSSL would use, or the file of a distribution for which this OpenSSL was not built.
    ///
    /// - Returns: `nil` if there are none.
    static func find() -> SystemTrustRoots? {
        if self.isConfigured {
            if let file = self.environment("SSL_CERT_FILE"), self.isReadable(file) { return .file(file) }
            return self.environment("SSL_CERT_DIR").flatMap(Self.hashed)
        }
        if let found = self.hashed(String(cString: X509_get_default_cert_dir())) { return found }
        let files = [
            String(cString: X509_get_default_cert_file()), "/etc/ssl/certs/ca-certificates.crt",
            "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem",
        ]
        return files.first(where: self.isReadable).map { .file($0) }
    }

    /// Whether the environment names the roots, as for every program that uses OpenSSL.
    static var isConfigured: Bool {
        self.environment("SSL_CERT_FILE") != nil || self.environment("SSL_CERT_DIR") != nil
    }

    /// The file with all roots; `nil` if there is none.
    var file: String? {
        if case .file(let path) = self { path } else { nil }
    }

    /// Makes `store` find these roots, in addition to those that it already holds.
    func add(to store: OpaquePointer) {
        switch self {
        case .file(let path): _ = X509_STORE_load_file(store, path)
        case .directories(let paths): _ = X509_STORE_load_path(store, paths)
        }
        // Errors of unreadable files do not concern the caller.
        OpenSSLErrors.clear()
    }

    /// The directories if one of them holds roots.
    private static func hashed(_ directories: String) -> SystemTrustRoots? {
        let names = directories.split(separator: ":").lazy.flatMap { self.entries(of: String($0)) }
        return names.contains(where: self.isHash) ? .directories(directories) : nil
    }

    /// Whether OpenSSL may search for a certificate under this file name, such as `4a6481c9.0`.
    private static func isHash(_ name: String) -> Bool {
        let parts = name.split(separator: ".", omittingEmptySubsequences: false)
        return parts.count == 2 && parts[0].utf8.count == 8 && UInt32(parts[0], radix: 16) != nil
            && UInt32(parts[1]) != nil
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
        return names
    }
}
