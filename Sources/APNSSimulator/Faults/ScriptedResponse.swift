public import APNSModel
internal import APNSTransport

/// A response from a script. Every part of it may be invalid.
public struct ScriptedResponse: Sendable, Hashable {
    /// The value of the response's `apns-id`.
    public enum ID: Sendable, Hashable {
        /// The request's id, or one that the simulator generates.
        case asUsual
        /// No such header, as in responses of edge servers.
        case missing
        /// This text, whatever the request's id was.
        case text(String)
    }

    /// The HTTP status, from 200 to 599.
    public var status: Int
    /// The `reason` in the body; nil for no body.
    public var reason: RejectionReason?
    /// The timestamp in the body, in milliseconds since 1970.
    public var timestamp: Int64?
    /// A body that replaces `{"reason":…}`.
    public var body: [UInt8]?
    /// The size of the body in bytes. The body (or blanks, if there is none) is repeated to this size; `Int.max`: it
    /// never ends.
    public var bodyBytes: Int?
    /// The value of `apns-id`. Default: the value that APNs would send.
    public var id = ID.asUsual
    /// Additional headers, with names in lower case.
    public var headers: [String: String] = [:]
    /// The size of further headers in bytes, to exceed the limit of a client. At most 60,000, which is nghttp2's limit.
    public var headerBytes = 0
    /// Informational statuses (100 to 199) that are sent before the response.
    public var informational: [Int] = []
    /// Trailers after the body.
    public var trailers: [String: String] = [:]
    /// Truncates the body after this many bytes; 0: directly after the headers.
    public var cutAfter: Int?
    /// The code with which the stream of a truncated body is reset. Default INTERNAL_ERROR.
    public var cutCode: UInt32 = 2
    /// Whether the stream stays open after the body, truncated or not.
    public var neverEnds = false
    /// The code of an RST_STREAM after the complete response, which servers send if they do not need the rest of a
    /// request (RFC 9113, section 8.1).
    public var resetCode: UInt32?
    /// Whether the push counts as processed; nil: if the status is 200 to 299.
    public var isProcessed: Bool?

    /// - Parameters:
    ///   - status: the HTTP status, from 200 to 599.
    ///   - reason: the reason; nil for no body.
    ///   - timestamp: milliseconds since 1970; nil for none.
    public init(status: Int, reason: RejectionReason? = nil, timestamp: Int64? = nil) {
        self.status = min(max(status, 200), 599)
        self.reason = reason
        self.timestamp = timestamp
    }

    /// Creates a response with the reason's status in APNs' table; 400 for an unknown reason.
    public init(_ reason: RejectionReason, timestamp: Int64? = nil) {
        self.init(status: reason.status ?? 400, reason: reason, timestamp: timestamp)
    }

    /// Returns a copy with changes: `ScriptedResponse(.badTopic).with { $0.id = .missing }`.
    public func with(_ change: (inout ScriptedResponse) -> Void) -> ScriptedResponse {
        var copy = self
        change(&copy)
        return copy
    }

    static let headerLimit = 60_000

    var verdict: Verdict { Verdict(status: self.status, reason: self.reason, timestamp: self.timestamp) }
}

extension ScriptedResponse {
    /// Adds the script's faults to a correct response.
    func shape(_ response: SessionAction.Response) -> SessionAction.Response {
        var response = response
        for (name, value) in self.headers.sorted(by: { $0.key < $1.key }) {
            response.fields.append(name: name, value: value)
        }
        var rest = min(max(self.headerBytes, 0), Self.headerLimit)
        while rest > 0 {
            // The length of a field that nghttp2 sends.
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
        if self.neverEnds || self.cutAfter != nil {
            response.body = Array(response.body.prefix(max(self.cutAfter ?? .max, 0)))
            response.ending = .open
            response.cutCode = self.neverEnds ? nil : self.cutCode
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
