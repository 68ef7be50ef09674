#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// What changes when a file is written, or another one takes its place: reading it anew tells the rest.
struct FileStamp: Hashable, Sendable {
    var device: UInt64
    var inode: UInt64
    var size: Int64
    /// The time of the last change, as the system writes it. Only compared: which C module `timespec` belongs to, and
    /// so whether its members are visible here, differs from build to build.
    var modified: [UInt8]
}

extension FileStamp {
    /// That of the file at `path`, through symbolic links; nil when there is none.
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

/// When the files of a credential are read again. Pure.
///
/// A file that cannot be used is read at each look until it can: it may be half written, or the certificate is there and
/// its key is still to come. One that was taken, or refused by APNs, is left alone until it changes.
struct CredentialFileWatch: Sendable {
    private var known: [FileStamp?]
    private var isPending = false
    private var isTold = false

    /// - Parameter stamps: what the files were when they were read first.
    init(_ stamps: [FileStamp?]) {
        self.known = stamps
    }

    /// - Returns: whether the files are to be read now.
    mutating func check(_ stamps: [FileStamp?]) -> Bool {
        if stamps != self.known {
            self.known = stamps
            self.isPending = true
            self.isTold = false
        }
        return self.isPending
    }

    /// They could be read.
    mutating func wereRead() { self.isPending = false }

    /// They could not be used.
    ///
    /// - Returns: whether to tell: once for each change.
    mutating func couldNotBeUsed() -> Bool {
        defer { self.isTold = true }
        return !self.isTold
    }
}

/// When to warn of a certificate's end. Pure.
struct CertificateExpiryWatch: Sendable {
    enum Warning: Sendable, Equatable {
        case expires(inDays: Int64)
        case expired
    }

    /// So many seconds before its end: 30 days.
    static let notice: Int64 = 30 * 86_400
    private static let day: Int64 = 86_400

    private var told: (at: Int64, isExpired: Bool)?

    /// - Parameters:
    ///   - notAfter: the certificate's end.
    ///   - wallNow: both in seconds since 1970.
    /// - Returns: what to say, once a day at the most, and once when the end has come.
    mutating func check(notAfter: Int64, wallNow: Int64) -> Warning? {
        let (left, overflow) = notAfter.subtractingReportingOverflow(wallNow)
        guard !overflow, left <= Self.notice else { return nil }
        let isExpired = left <= 0
        if let told, told.isExpired == isExpired, wallNow >= told.at, wallNow - told.at < Self.day { return nil }
        self.told = (wallNow, isExpired)
        return isExpired ? .expired : .expires(inDays: left / Self.day)
    }
}
