import APNSTransport
public import Logging
package import SupervisedPool
import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Shares the provider token among the processes of one machine through a file: one process signs and writes, the
/// others read.
///
/// A process that restarts reads the file before it signs. A token that another key has signed, with these ids or
/// others, is not trusted but replaced. With an ``APNSTokenSigner``, whose public key is not known, only the ids are
/// checked.
///
/// ```swift
/// var authentication = APNSAuthentication.token(keyFile: "AuthKey_9UC9ZLQ8YW.p8", teamID: "ABBM6U9RM5")
/// authentication.tokenSource = SharedFileTokenSource(path: "/run/myservice/apns-token")
/// ```
/// Only its owner can read the file (0600), so all processes must run as one user. A file that others may read or
/// write, or that is damaged, is not trusted but replaced.
///
/// The file is replaced in one step (`rename`) by the process that holds the lock on a second file (`path` with `.lock`
/// added). The system releases the lock of a process that dies. The token is the file's first line, so `head -1` passes
/// it to `curl`. Use a local file system and one file for each key.
///
/// Only a file that holds a provider token, is empty or does not exist is written. Symbolic links are followed. A client
/// whose `path` names a file with other contents, a pipe or a device is not created: the initializer throws
/// ``APNSConfigurationError/Code/outputRefused``.
public struct SharedFileTokenSource: ProviderTokenSource {
    /// The file's path. Its directory must exist, and the process must be allowed to create files in it.
    public let path: String
    /// How long to wait for another process that is signing. Default 10 s.
    public var lockTimeout: Duration = .seconds(10)
    /// Logs a warning if the file cannot be written. This process then uses a token of its own.
    public var logger: Logger

    package var clock: any MonotonicClock = SystemMonotonicClock()

    /// The tokens that could not be written, by their paths: this process signs one for all its clients.
    private static let unwritten = Mutex<[String: SharedProviderToken]>([:])

    /// Creates the source without accessing any file.
    ///
    /// - Parameters:
    ///   - path: The file's path, in a directory that exists.
    ///   - logger: Logs a warning if the file cannot be written.
    public init(path: String, logger: Logger = Logger(label: "apns-pool")) {
        self.path = path
        self.logger = logger
    }

    /// Returns the file's token if it can be used, or else signs a new one and writes it to the file.
    ///
    /// - Throws: An error that names the file if it cannot be locked; the signer's error.
    public func token(for request: ProviderTokenRequest) async throws -> SharedProviderToken {
        if let token = await FileThreads.run({ self.read() }), request.accepts(token) { return token }
        let lock = try await self.lock()
        let result = await self.lockedToken(request)
        await FileThreads.run { _ = SystemFile.close(lock) }
        return try result.get()
    }

    private func lockedToken(_ request: ProviderTokenRequest) async -> Result<SharedProviderToken, any Error> {
        // Another process may have written it while this one waited.
        if let token = await FileThreads.run({ self.read() }), request.accepts(token) { return .success(token) }
        do {
            let unwritten = Self.unwritten.withLock { $0[self.path] }.flatMap { request.accepts($0) ? $0 : nil }
            let token: SharedProviderToken = if let unwritten { unwritten } else { try await request.sign() }
            let error = await FileThreads.run { self.write(token) }
            Self.unwritten.withLock { $0[self.path] = error == nil ? nil : token }
            if let error {
                self.logger.warning(
                    "the shared provider token cannot be written: each process signs its own, which APNs may refuse",
                    metadata: ["file": "\(self.path)", "error": "\(error)"]
                )
            }
            return .success(token)
        } catch {
            return .failure(error)
        }
    }

    /// Why the token must not be written to `path`; nil if it may be. Blocks while it reads the file.
    var refusal: APNSConfigurationError? {
        let reason = OutputFile(self.path).refusal(purpose: "a provider token", isOurs: SharedTokenFile.isOurs)
        return reason.map { APNSConfigurationError(.outputRefused, setting: "authentication.tokenSource", message: $0) }
    }

    /// The token in the file; nil if there is none that can be trusted.
    package func read() -> SharedProviderToken? {
        guard case .success(let descriptor) = SystemFile.openRegular(self.path) else { return nil }
        defer { SystemFile.close(descriptor) }
        var information = stat()
        guard fstat(descriptor, &information) == 0, information.st_mode & 0o077 == 0, information.st_uid == geteuid()
        else { return nil }
        guard case .success(let bytes) = SystemFile.contents(of: descriptor, limit: SharedTokenFile.limit) else {
            return nil
        }
        return SharedTokenFile.token(in: bytes[...])
    }

    private func lock() async throws(TokenError) -> Int32 {
        let descriptor: Int32
        let opening = await FileThreads.run {
            // Beside the file itself, so that processes that use different links to it exclude each other.
            let path = OutputFile(self.path).path
            return SystemFile.open("\(path).lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, mode: 0o600)
        }
        switch opening {
        case .success(let opened):
            descriptor = opened
        case .failure(let error):
            throw TokenError(
                "'\(self.path).lock' cannot be opened: \(error). The shared token needs a writable directory."
            )
        }
        let end = self.clock.now.advanced(by: self.lockTimeout)
        var pauses = Backoff(.doubling(), minimum: .milliseconds(5), maximum: .milliseconds(100))
        while true {
            let code = await FileThreads.run { flock(descriptor, LOCK_EX | LOCK_NB) == 0 ? 0 : errno }
            if code == 0 { return descriptor }
            if code == EINTR { continue }
            let now = self.clock.now
            guard code == EWOULDBLOCK, now < end, !Task.isCancelled else {
                await FileThreads.run { _ = SystemFile.close(descriptor) }
                throw TokenError(
                    code == EWOULDBLOCK
                        ? "Another process holds '\(self.path).lock'; the longest wait is \(self.lockTimeout)."
                        : "'\(self.path).lock' cannot be locked: \(SystemError(code: code))."
                )
            }
            try? await self.clock.sleep(until: min(now.advanced(by: pauses.next()), end))
        }
    }

    /// Only the process that holds the lock writes, so the temporary file can always have one name.
    private func write(_ token: SharedProviderToken) -> String? {
        let bytes: [UInt8]
        do throws(OpenSSLFault) {
            bytes = try SharedTokenFile.bytes(of: token)
        } catch {
            return error.description
        }
        // Another file may have taken the place since the client was created.
        if let refusal { return refusal.message }
        let path = OutputFile(self.path).path
        let new = "\(path).new"
        if let refusal = SharedFileTokenSource(path: new).refusal { return refusal.message }
        _ = unlink(new)
        let descriptor: Int32
        switch SystemFile.open(new, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode: 0o600) {
        case .success(let opened): descriptor = opened
        case .failure(let error): return error.description
        }
        var error = SystemFile.write(bytes, to: descriptor)
        if error == nil, fsync(descriptor) != 0 { error = SystemError(code: errno) }
        let closing = SystemFile.close(descriptor)
        error = error ?? closing
        if error == nil, rename(new, path) != 0 { error = SystemError(code: errno) }
        guard let error else { return nil }
        _ = unlink(new)
        return error.description
    }
}

/// The format of a shared token's file: the token, its properties and a checksum, one per line.
///
/// ```
/// eyJhbGciOiJFUzI1NiIsImtpZCI6…
/// key-id 9UC9ZLQ8YW
/// team-id ABBM6U9RM5
/// issued-at 1800000000
/// sha256 5f1e…
/// ```
/// The checksum covers all bytes before its line.
enum SharedTokenFile {
    /// Far above the size of a token. It keeps a wrong path from filling the memory.
    static let limit = 8192

    /// Base64 of `{"alg":"ES256","kid":`, with which the header of each token begins. Tokens of other services have other
    /// headers.
    private static let beginning = Array("eyJhbGciOiJFUzI1NiIsImtpZCI6".utf8)

    /// Whether a file that begins with these bytes held a token, even if it is damaged.
    static func isOurs(_ bytes: [UInt8]) -> Bool { bytes.starts(with: self.beginning.prefix(bytes.count)) }

    static func bytes(of token: SharedProviderToken) throws(OpenSSLFault) -> [UInt8] {
        let text = """
            \(token.jwt)
            key-id \(token.keyID)
            team-id \(token.teamID)
            issued-at \(token.issuedAt)

            """
        return Array("\(text)sha256 \(try SHA256Digest.hexadecimal(of: Array(text.utf8)))\n".utf8)
    }

    /// Nil for a file that is truncated, damaged or of another kind.
    static func token(in bytes: ArraySlice<UInt8>) -> SharedProviderToken? {
        guard bytes.count <= self.limit else { return nil }
        let lines = bytes.split(separator: 0x0A, omittingEmptySubsequences: false)
        guard lines.count == 6, lines[5].isEmpty,
            let keyID = self.value("key-id ", lines[1]), let teamID = self.value("team-id ", lines[2]),
            let issuedAt = self.value("issued-at ", lines[3]).flatMap({ Int64($0) }),
            let sum = self.value("sha256 ", lines[4]),
            sum == (try? SHA256Digest.hexadecimal(of: Array(bytes[..<lines[4].startIndex])))
        else { return nil }
        return SharedProviderToken(
            jwt: String(decoding: lines[0], as: UTF8.self),
            keyID: keyID,
            teamID: teamID,
            issuedAt: issuedAt
        )
    }

    private static func value(_ name: String, _ line: ArraySlice<UInt8>) -> String? {
        guard line.starts(with: name.utf8) else { return nil }
        return String(decoding: line.dropFirst(name.utf8.count), as: UTF8.self)
    }
}
