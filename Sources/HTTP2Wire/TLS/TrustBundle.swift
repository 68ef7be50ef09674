import CAPNSOpenSSL
import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// A file with many trust roots (PEM, one after the other), of which each is parsed when somebody asks for its subject.
///
/// Holds the file open: the roots stay those of the beginning when the file is replaced, removed, or out of reach. When it
/// is rewritten in place, they are what it holds then.
final class TrustBundle: Sendable {
    /// Where a certificate's PEM block stands in the file.
    struct Entry: Hashable, Sendable {
        /// OpenSSL's hash of the subject, which is that of names which OpenSSL takes for equal.
        var subjectHash: UInt
        var offset: Int
        var length: Int
    }

    /// What changes when a file is written to.
    private struct Version: Equatable {
        var size: Int
        var modified: [Int]

        init?(of descriptor: Int32) {
            var status = stat()
            guard fstat(descriptor, &status) == 0 else { return nil }
            self.size = Int(status.st_size)
            #if canImport(Darwin)
                let times = [status.st_mtimespec, status.st_ctimespec]
            #else
                let times = [status.st_mtim, status.st_ctim]
            #endif
            self.modified = times.flatMap { [Int($0.tv_sec), Int($0.tv_nsec)] }
        }
    }

    private struct Index {
        /// The file's version that the entries stand in.
        var version: Version
        var entries: [Entry]
    }

    private let descriptor: Int32
    private let index: Mutex<Index>

    /// A bundle beyond this is none: a distribution's has about 220 KiB.
    private static let largestFile = 8 << 20

    /// Nil if the file cannot be read, or not all that stands in it is certificates.
    init?(file: String) {
        let descriptor = open(file, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        guard let version = Version(of: descriptor), let entries = Self.entries(of: descriptor, version) else {
            close(descriptor)
            return nil
        }
        self.descriptor = descriptor
        self.index = Mutex(Index(version: version, entries: entries))
    }

    deinit {
        close(self.descriptor)
    }

    // MARK: The index

    private static func entries(of descriptor: Int32, _ version: Version) -> [Entry]? {
        self.contents(of: descriptor, size: version.size).flatMap(self.index)
    }

    /// Where the certificates stand now; none while the file is no bundle.
    private var entries: [Entry] {
        self.index.withLock { index in
            guard let version = Version(of: self.descriptor) else { return [] }
            if version != index.version {
                index = Index(version: version, entries: Self.entries(of: self.descriptor, version) ?? [])
            }
            return index.entries
        }
    }

    /// The certificates in a text of PEM blocks; nil if there are none, or other things.
    static func index(_ text: [UInt8]) -> [Entry]? {
        self.withBIO(text) { bio in
            var entries: [Entry] = []
            var offset = 0
            ERR_clear_error()
            while let hash = self.nextSubjectHash(bio) {
                let end = text.count - BIO_ctrl_pending(bio)
                entries.append(Entry(subjectHash: hash, offset: offset, length: end - offset))
                offset = end
            }
            let isAtEnd = OpenSSLErrors.drain().firstReason == PEM_R_NO_START_LINE
            return isAtEnd && !entries.isEmpty ? entries : nil
        }
    }

    private static func nextSubjectHash(_ bio: OpaquePointer) -> UInt? {
        var label: UnsafeMutablePointer<CChar>?
        var header: UnsafeMutablePointer<CChar>?
        var der: UnsafeMutablePointer<UInt8>?
        var count = 0
        guard PEM_read_bio(bio, &label, &header, &der, &count) == 1, let label else { return nil }
        defer {
            capns_free(label)
            capns_free(header)
            capns_free(der)
        }
        guard ["CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE"].contains(String(cString: label)) else {
            return nil
        }
        return self.subjectHash(ofDER: Array(UnsafeBufferPointer(start: der, count: count)))
    }

    /// Reads no more of a certificate than its subject stands in: OpenSSL would decode the public key too, which is what
    /// takes the time.
    private static func subjectHash(ofDER der: [UInt8]) -> UInt? {
        guard let subject = self.subject(in: der) else { return nil }
        let name = DER.read(subject) { d2i_X509_NAME(nil, &$0, $1) }?.value
        defer { X509_NAME_free(name) }
        return self.hash(of: name)
    }

    /// RFC 5280, section 4.1: SEQUENCE { SEQUENCE { [0] version?, serial, algorithm, issuer, validity, subject … } … }
    private static func subject(in der: [UInt8]) -> ArraySlice<UInt8>? {
        var fields = DERReader(der[...])
        for _ in 0..<2 {
            guard let outer = fields.next(), outer.tag == DERReader.sequence else { return nil }
            fields = DERReader(outer.content)
        }
        var field = fields.next()
        if field?.tag == DERReader.context0 { field = fields.next() }
        for tag in [DERReader.integer, DERReader.sequence, DERReader.sequence, DERReader.sequence] {
            guard field?.tag == tag else { return nil }
            field = fields.next()
        }
        return field?.tag == DERReader.sequence ? field?.whole : nil
    }

    private static func hash(of name: OpaquePointer?) -> UInt? {
        guard let name else { return nil }
        var isHash: Int32 = 0
        let hash = X509_NAME_hash_ex(name, nil, nil, &isHash)
        return isHash == 1 ? UInt(hash) : nil
    }

    // MARK: Lookup

    /// The certificates with this subject; none if the file changes at this moment.
    func certificates(named name: OpaquePointer?) -> [X509Certificate] {
        guard let hash = Self.hash(of: name) else { return [] }
        return self.entries.filter { $0.subjectHash == hash }
            .compactMap(self.certificate)
            .filter { X509_NAME_cmp(X509_get_subject_name($0.pointer), name) == 0 }
    }

    private func certificate(_ entry: Entry) -> X509Certificate? {
        let block = [UInt8](unsafeUninitializedCapacity: entry.length) { buffer, count in
            count = max(0, pread(self.descriptor, buffer.baseAddress, entry.length, off_t(entry.offset)))
        }
        return Self.withBIO(block) { PEM_read_bio_X509_AUX($0, nil, nil, nil) }
            .map(X509Certificate.init(owning:))
    }

    /// Has `store` ask this bundle for subjects that it does not hold yet.
    ///
    /// - Returns: what OpenSSL asks; the store owns it.
    func add(to store: OpaquePointer?) -> OpaquePointer? {
        guard let lookup = X509_STORE_add_lookup(store, Self.method) else { return nil }
        // The lookup owns a reference; its method's `free` gives it back.
        let reference = Unmanaged.passRetained(self)
        if X509_LOOKUP_set_method_data(lookup, reference.toOpaque()) != 1 { reference.release() }
        return lookup
    }

    /// What OpenSSL calls a lookup's class. Made once and never freed, since stores point to it.
    ///
    /// `nonisolated(unsafe)`: written here only, and OpenSSL reads a method without changing it.
    private nonisolated(unsafe) static let method: OpaquePointer? = {
        let method = X509_LOOKUP_meth_new("certificates of a bundle, by subject")
        X509_LOOKUP_meth_set_free(method) { lookup in
            guard let data = X509_LOOKUP_get_method_data(lookup) else { return }
            Unmanaged<TrustBundle>.fromOpaque(data).release()
        }
        X509_LOOKUP_meth_set_get_by_subject(method) { lookup, type, name, result in
            guard type == X509_LU_X509, let data = X509_LOOKUP_get_method_data(lookup) else { return 0 }
            let bundle = Unmanaged<TrustBundle>.fromOpaque(data).takeUnretainedValue()
            return bundle.answer(name, store: X509_LOOKUP_get_store(lookup), result: result) ? 1 : 0
        }
        return method
    }()

    /// Puts the certificates of a subject into the store and one of them into `result`, as OpenSSL's own lookup of a
    /// directory does. May be called by several threads at once, for the same subject too.
    private func answer(_ name: OpaquePointer?, store: OpaquePointer?, result: OpaquePointer?) -> Bool {
        let found = self.certificates(named: name)
        for certificate in found {
            X509_STORE_add_cert(store, certificate.pointer)
        }
        // Errors of what was skipped would be taken for the handshake's.
        ERR_clear_error()
        guard !found.isEmpty else { return false }
        // The store's own object, for another thread may have been first with an equal one.
        X509_STORE_lock(store)
        defer { X509_STORE_unlock(store) }
        guard let object = X509_OBJECT_retrieve_by_subject(X509_STORE_get0_objects(store), X509_LU_X509, name),
            let kept = X509_OBJECT_get0_X509(object), X509_OBJECT_set1_X509(result, kept) == 1
        else { return false }
        // Whoever asked takes a reference of its own and expects none in `result`; the store keeps its objects.
        X509_free(kept)
        return true
    }

    // MARK: Bytes

    private static func contents(of descriptor: Int32, size: Int) -> [UInt8]? {
        guard (1...self.largestFile).contains(size) else { return nil }
        let bytes = [UInt8](unsafeUninitializedCapacity: size) { buffer, count in
            while count < size, let start = buffer.baseAddress {
                let read = pread(descriptor, start + count, size - count, off_t(count))
                guard read > 0 else { break }
                count += read
            }
        }
        return bytes.count == size ? bytes : nil
    }

    /// A BIO that reads `bytes`, for as long as `body` runs.
    private static func withBIO<Result>(_ bytes: [UInt8], _ body: (OpaquePointer) -> Result?) -> Result? {
        bytes.withUnsafeBytes { buffer in
            guard let bio = BIO_new_mem_buf(buffer.baseAddress, Int32(clamping: buffer.count)) else { return nil }
            defer { BIO_free(bio) }
            return body(bio)
        }
    }
}
