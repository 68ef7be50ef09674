public import APNSModel
internal import HTTP2Wire

/// A response as a script has it, right or wrong in every part.
public struct ScriptedResponse: Sendable, Hashable {
    /// What stands in the response's `apns-id`.
    public enum ID: Sendable, Hashable {
        /// The request's, or one that the simulator makes up.
        case asUsual
        /// There is no such field, as in answers of an edge server.
        case missing
        /// This text, whatever was sent.
        case text(String)
    }

    /// From 200 to 599.
    public var status: Int
    /// The `reason` in the body; nil: no body.
    public var reason: RejectionReason?
    /// Milliseconds since 1970.
    public var timestamp: Int64?
    /// Instead of `{"reason":…}`.
    public var body: [UInt8]?
    /// The body is repeated (blanks, if there is none) until it has this many bytes; `Int.max`: it never ends.
    public var bodyBytes: Int?
    /// What stands in `apns-id`. Default: what APNs would send.
    public var id = ID.asUsual
    /// Further fields; names in lower case.
    public var headers: [String: String] = [:]
    /// So many bytes of further fields, to be beyond what a client keeps. At most 60,000, which is what nghttp2 sends.
    public var headerBytes = 0
    /// Statuses from 100 to 199 that go before the response.
    public var informational: [Int] = []
    /// Fields behind the body.
    public var trailers: [String: String] = [:]
    /// The body breaks off after so many bytes; 0: right behind the headers.
    public var cutAfter: Int?
    /// What the stream of a body that breaks off is reset with; nil: it is left open. Default INTERNAL_ERROR.
    public var cutCode: UInt32? = 2
    /// RST_STREAM behind the whole response, as servers send that do not want the rest of a request (RFC 9113, section 8.1).
    public var resetCode: UInt32?
    /// Whether the push counts as processed; nil: if the status is 200.
    public var isProcessed: Bool?

    /// - Parameters:
    ///   - status: from 200 to 599.
    ///   - reason: nil: no body.
    ///   - timestamp: milliseconds since 1970; nil: none.
    public init(status: Int, reason: RejectionReason? = nil, timestamp: Int64? = nil) {
        self.status = min(max(status, 200), 599)
        self.reason = reason
        self.timestamp = timestamp
    }

    /// The status is the one the reason has in APNs' table; 400 for an unknown one.
    public init(_ reason: RejectionReason, timestamp: Int64? = nil) {
        self.init(status: reason.status ?? 400, reason: reason, timestamp: timestamp)
    }

    /// Changes parts in place: `ScriptedResponse(.badTopic).with { $0.id = .missing }`.
    public func with(_ change: (inout ScriptedResponse) -> Void) -> ScriptedResponse {
        var copy = self
        change(&copy)
        return copy
    }

    static let headerLimit = 60_000

    var verdict: Verdict { Verdict(status: self.status, reason: self.reason, timestamp: self.timestamp) }
}

extension ScriptedResponse {
    /// Gives a response that is right all that the script wants wrong.
    func shape(_ response: SessionAction.Response) -> SessionAction.Response {
        var response = response
        for (name, value) in self.headers.sorted(by: { $0.key < $1.key }) {
            response.fields.append(name: name, value: value)
        }
        var rest = min(max(self.headerBytes, 0), Self.headerLimit)
        while rest > 0 {
            // nghttp2 sends fields of this length.
            let count = min(rest, 15_000)
            response.fields.append(name: "x-padding", value: String(repeating: "x", count: count))
            rest -= count
        }
        response.informational = self.informational.filter { (100...199).contains($0) && $0 != 101 }
        response.resetCode = self.resetCode
        if let count = self.bodyBytes {
            if response.body.isEmpty { response.body = Array(repeating: UInt8(ascii: " "), count: 1024) }
            response.ending = .repeated(upTo: max(count, 0))
        }
        if let count = self.cutAfter {
            response.body = Array(response.body.prefix(max(count, 0)))
            response.ending = .open
            response.cutCode = self.cutCode
        } else if !self.trailers.isEmpty, self.bodyBytes == nil {
            var fields = FieldList()
            for (name, value) in self.trailers.sorted(by: { $0.key < $1.key }) {
                fields.append(name: name, value: value)
            }
            response.ending = .trailers(fields)
        }
        return response
    }
}
