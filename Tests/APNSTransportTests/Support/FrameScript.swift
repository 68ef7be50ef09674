import NIOCore

@testable import APNSTransport

/// A client session and a server made of hand-written frames, joined in memory.
final class FrameScript {
    let client: HTTP2ClientSession
    /// All frames that the client has written, in their order.
    private(set) var written: [Frame] = []
    private(set) var results: [StreamResult] = []
    /// The time of the client's reads.
    var now = NIODeadline.uptimeNanoseconds(0)

    /// - Parameters:
    ///   - limit: the server's MAX_CONCURRENT_STREAMS; nil: no SETTINGS are exchanged.
    ///   - settings: the server's other settings.
    ///   - bodyLimit: how many bytes of a body are kept.
    init(
        limit: UInt32? = 100,
        settings: [(UInt16, UInt32)] = [],
        bodyLimit: Int = StreamTable.bodyLimit
    ) throws {
        var configuration = HTTP2ClientSession.Configuration()
        configuration.responseBodyLimit = bodyLimit
        configuration.variableNames = [":path", "apns-id"]
        self.client = try HTTP2ClientSession(configuration: configuration)
        guard let limit else { return }
        self.write()
        try self.server(.settings([(3, limit)] + settings), .settingsAck)
        self.write()
        self.written.removeAll()
    }

    /// The server sends these frames in one piece.
    func server(_ frames: Frame...) throws {
        try self.server(bytes: frames.flatMap(\.bytes))
    }

    func server(bytes: [UInt8]) throws {
        defer { self.collect() }
        // Not rethrown through the closure: that crashes the compiler (6.3.1).
        let error: WireError? = bytes.withUnsafeBytes {
            do throws(WireError) {
                try self.client.receive($0, now: self.now)
                _ = try self.client.openHeld(now: self.now)
                return nil
            } catch {
                return error
            }
        }
        if let error { throw error }
    }

    /// Lets the client write its frames, at most `limit`.
    ///
    /// - Returns: the frames of this write.
    @discardableResult
    func write(frames limit: Int = .max) -> [Frame] {
        var bytes: [UInt8] = []
        var count = 0
        while count < limit, let frame = try? self.client.nextFrame(), !frame.isEmpty {
            bytes += frame
            count += 1
        }
        let frames = Frame.parse(bytes)
        self.written += frames
        self.collect()
        return frames
    }

    @discardableResult
    func submit(
        _ tag: UInt64,
        path: String = "/3/device/00",
        id: String = "",
        body: String = "{}",
        deadline: NIODeadline = .distantFuture,
        responseLimit: TimeAmount = .nanoseconds(.max),
        isBulk: Bool = false
    ) throws -> HTTP2ClientSession.Submission {
        let request = HTTP2Request.test(path: path, id: id, body: body)
        return try self.client.submit(
            request,
            tag: StreamTag(tag),
            deadline: deadline,
            responseLimit: responseLimit,
            isBulk: isBulk,
            now: self.now
        )
    }

    func cancel(_ tag: UInt64) {
        self.client.cancel(tag: StreamTag(tag))
        self.collect()
    }

    func expire(at now: NIODeadline) {
        _ = self.client.expire(now: now)
        self.collect()
    }

    /// - Returns: the tags of the held requests that were withdrawn.
    @discardableResult
    func checkWindowLimit() -> [UInt64] {
        self.collect()
        let before = self.results.count
        _ = self.client.checkWindowLimit()
        self.collect()
        return self.results[before...].map(\.tag.rawValue)
    }

    func loseConnection() {
        self.client.concludeAll(cause: .connectionLost)
        self.collect()
    }

    /// The streams that ended since the last call, in short form.
    func take() -> [Ended] {
        defer { self.results.removeAll() }
        return self.results.map { Ended($0.tag.rawValue, $0.ending, $0.cause) }
    }

    func takeResults() -> [StreamResult] {
        defer { self.results.removeAll() }
        return self.results
    }

    private func collect() {
        self.results += self.client.results
        self.client.results.removeAll(keepingCapacity: true)
    }
}

struct Ended: Hashable, CustomStringConvertible {
    var tag: UInt64
    var ending: StreamEnding
    var cause: StreamCause
    init(_ tag: UInt64, _ ending: StreamEnding, _ cause: StreamCause) {
        self.tag = tag
        self.ending = ending
        self.cause = cause
    }
    var description: String { "\(self.tag): \(self.ending), \(self.cause)" }
}

extension HTTP2Request {
    static let testFields = HeaderBlock([
        .init(":method", "POST"), .init(":scheme", "https"), .init(":authority", "localhost"),
        .init("apns-topic", "com.example.app"),
    ])

    static func test(path: String = "/3/device/00", id: String = "", body: String = "{}") -> HTTP2Request {
        HTTP2Request(
            shared: self.testFields,
            credential: nil,
            values: Array(path.utf8) + Array(id.utf8),
            valueLengths: [UInt16(path.utf8.count), UInt16(id.utf8.count), 0, 0, 0, 0, 0, 0],
            body: Array(body.utf8)
        )
    }
}
