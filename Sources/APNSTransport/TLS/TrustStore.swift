import CAPNSOpenSSL
import Synchronization

/// The trust roots of a configuration, in an OpenSSL store. Contexts with the same roots share one store while any of
/// them is alive, so that a process does not read and keep a file of roots for each context.
///
/// `@unchecked Sendable`: the pointer is set once in `init`, and the store is complete before it is shared. Roots that
/// OpenSSL later finds in a directory are added under the store's own lock.
final class TrustStore: @unchecked Sendable {
    let pointer: OpaquePointer

    /// The source of the roots. Replacing or rewriting a file creates a different source, so the next context reads the
    /// file again.
    private struct Source: Hashable {
        var caFile: FileVersion?
        var caPEM: String?
        var system: SystemTrustRoots?
        var systemFile: FileVersion?
    }

    private struct Shared {
        weak var store: TrustStore?
    }

    private static let stores = Mutex<[Source: Shared]>([:])

    /// Returns the store for this configuration. It is shared with a context that is still alive, if there is one;
    /// otherwise it is new.
    ///
    /// - Throws: `trustRootsUnreadable` or `trustStoreMissing`.
    static func shared(for configuration: TLSConfiguration) throws(WireError) -> TrustStore {
        let system = configuration.trustsSystemRoots ? configuration.systemTrustRoots ?? .find() : nil
        if configuration.trustsSystemRoots, system == nil, configuration.caFile == nil, configuration.caPEM == nil {
            let cause =
                SystemTrustRoots.isConfigured
                ? "SSL_CERT_FILE or SSL_CERT_DIR names no trust roots that can be read: correct it"
                : "this machine has no trust roots to verify a server with: install the package 'ca-certificates'"
            throw WireError(.trustStoreMissing, cause + ", or name a CA file")
        }
        let source = Source(
            caFile: configuration.caFile.map(FileVersion.init),
            caPEM: configuration.caPEM,
            system: system,
            systemFile: system?.file.map(FileVersion.init)
        )
        if let store = self.stores.withLock({ $0[source]?.store }) { return store }
        // Done outside the lock, because files are read. If two threads create a store for one source, the first one is
        // kept.
        let store = try TrustStore(caFile: configuration.caFile, caPEM: configuration.caPEM, system: system)
        return self.stores.withLock { stores in
            if let first = stores[source]?.store { return first }
            stores = stores.filter { $0.value.store != nil }
            stores[source] = Shared(store: store)
            return store
        }
    }

    private init(caFile: String?, caPEM: String?, system: SystemTrustRoots?) throws(WireError) {
        OpenSSLErrors.clear()
        guard let pointer = X509_STORE_new() else {
            throw WireError(.trustRootsUnreadable, "OpenSSL could not create a store: \(OpenSSLErrors.drain().text)")
        }
        self.pointer = pointer
        if let caFile, X509_STORE_load_file(pointer, caFile) != 1 {
            let problem = OpenSSLErrors.drain().text
            // One certificate in DER form, as portals and browsers save it.
            guard let lookup = X509_STORE_add_lookup(pointer, X509_LOOKUP_file()),
                X509_load_cert_file(lookup, caFile, X509_FILETYPE_ASN1) == 1
            else {
                OpenSSLErrors.clear()
                throw WireError(
                    .trustRootsUnreadable,
                    "the CA file '\(caFile)' holds no certificate that can be read: \(problem)"
                )
            }
        }
        if let caPEM {
            for certificate in try PEM.certificates(in: caPEM, code: .trustRootsUnreadable) {
                // A certificate that is already in the store is no error.
                guard X509_STORE_add_cert(pointer, certificate.pointer) == 1 else {
                    throw WireError(
                        .trustRootsUnreadable,
                        "a CA certificate cannot be used: \(OpenSSLErrors.drain().text)"
                    )
                }
            }
        }
        system?.add(to: pointer)
    }

    deinit { X509_STORE_free(self.pointer) }
}

/// Identifies the current version of a file. Replacing the file or writing to it yields a different value.
private struct FileVersion: Hashable {
    let path: String
    /// Empty if the file does not exist.
    let stamp: [Int]

    init(_ path: String) {
        self.path = path
        var status = stat()
        guard stat(path, &status) == 0 else {
            self.stamp = []
            return
        }
        #if canImport(Darwin)
            let times = [status.st_mtimespec, status.st_ctimespec]
        #else
            let times = [status.st_mtim, status.st_ctim]
        #endif
        self.stamp =
            [Int(status.st_dev), Int(truncatingIfNeeded: status.st_ino), Int(status.st_size)]
            + times.flatMap { [Int($0.tv_sec), Int($0.tv_nsec)] }
    }
}
