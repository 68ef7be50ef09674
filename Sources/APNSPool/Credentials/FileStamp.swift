#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// File metadata that changes when a file is written or replaced. A new read then determines what changed.
struct FileStamp: Hashable, Sendable {
    var device: UInt64
    var inode: UInt64
    var size: Int64
    /// The time of the last change, as the bytes of a `timespec`. Used for comparison only. The C module that declares
    /// `timespec` differs from build to build, so its members are not always visible here.
    var modified: [UInt8]
}

extension FileStamp {
    /// The stamp of the file at `path`, following symbolic links; nil if there is none.
    init?(of path: String) {
        var information = stat()
        guard stat(path, &information) == 0 else { return nil }
        #if canImport(Darwin)
            let modified = information.st_mtimespec
        #else
            let modified = information.st_mtim
        #endif
        self.init(
            device: UInt64(truncatingIfNeeded: information.st_dev),
            inode: UInt64(information.st_ino),
            size: Int64(information.st_size),
            modified: withUnsafeBytes(of: modified) { Array($0) }
        )
    }
}

/// Decides when to read a credential's files again. Pure.
///
/// An unusable file is read at each check until it is usable: it may be half written, or the certificate may have
/// arrived before its key. A file that was accepted, or refused by APNs, is not read again until it changes.
struct CredentialFileWatch: Sendable {
    private var known: [FileStamp?]
    private var isPending = false
    private var isLogged = false

    /// - Parameter stamps: The stamps of the files when they were first read.
    init(_ stamps: [FileStamp?]) {
        self.known = stamps
    }

    /// - Returns: Whether to read the files now.
    mutating func check(_ stamps: [FileStamp?]) -> Bool {
        if stamps != self.known {
            self.known = stamps
            self.isPending = true
            self.isLogged = false
        }
        return self.isPending
    }

    /// The files were read and are usable.
    mutating func wereRead() { self.isPending = false }

    /// The files could not be used.
    ///
    /// - Returns: Whether to log it: once for each change.
    mutating func noteUnusable() -> Bool {
        defer { self.isLogged = true }
        return !self.isLogged
    }
}

/// Decides when to warn about a certificate's expiry. Pure.
struct CertificateExpiryWatch: Sendable {
    enum Warning: Sendable, Equatable {
        case expires(inDays: Int64)
        case expired
    }

    /// Warnings start this many seconds before the expiry: 30 days.
    static let notice: Int64 = 30 * 86_400
    private static let day: Int64 = 86_400

    private var lastWarning: (at: Int64, isExpired: Bool)?

    /// - Parameters:
    ///   - notAfter: The certificate's expiry, in seconds since 1970.
    ///   - wallNow: The current time, in seconds since 1970.
    /// - Returns: The warning to log: at most one a day, and one more as soon as the certificate has expired.
    mutating func check(notAfter: Int64, wallNow: Int64) -> Warning? {
        let (left, overflow) = notAfter.subtractingReportingOverflow(wallNow)
        guard !overflow, left <= Self.notice else { return nil }
        let isExpired = left <= 0
        if let lastWarning, lastWarning.isExpired == isExpired, wallNow >= lastWarning.at,
            wallNow - lastWarning.at < Self.day
        {
            return nil
        }
        self.lastWarning = (wallNow, isExpired)
        return isExpired ? .expired : .expires(inDays: left / Self.day)
    }
}
