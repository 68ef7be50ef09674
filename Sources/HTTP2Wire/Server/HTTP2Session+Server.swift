import CAPNSNghttp2
import Synchronization

/// A request that a server received.
package struct ServerRequest: Sendable {
    package var streamID: Int32
    package var fields: FieldList
    package var body: [UInt8]
    /// `false` if the request was reported early and its body may still arrive.
    package var isComplete: Bool
}

/// A switch shared by many server connections. While it is on, requests are reported twice: when their headers are
/// complete, and again when their body is. It may be set from any thread.
package final class HeaderReporting: Sendable {
    private let flag = Atomic(false)

    package init() {}

    package var isOn: Bool {
        get { self.flag.load(ordering: .acquiring) }
        set { self.flag.store(newValue, ordering: .releasing) }
    }
}

extension HTTP2Session {
    /// Copies the server's first SETTINGS frame (RFC 9113, section 6.5.1), replacing the limit of streams.
    func copy(of frame: UnsafeRawBufferPointer, announcing limit: UInt32) -> UnsafeMutableRawBufferPointer {
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: max(frame.count, 1), alignment: 8)
        copy.copyMemory(from: frame)
        guard frame.count >= 9, frame[3] == 4, frame[4] == 0 else { return copy }  // type SETTINGS, no ACK
        for entry in stride(from: 9, through: frame.count - 6, by: 6) where frame[entry] == 0 && frame[entry + 1] == 3 {
            copy.storeBytes(of: limit.bigEndian, toByteOffset: entry + 2, as: UInt32.self)
        }
        return copy
    }

    /// Whether a new stream is within the limit that the client has acknowledged. If not, the stream is recorded in
    /// `refusedStreams`.
    func admits(_ index: Int) -> Bool {
        guard let limit = self.announcedLimit, self.isLimitAcknowledged, self.streams.count > Int(limit) else {
            return true
        }
        self.refusedStreams.append(self.streams[index].streamID)
        return false
    }

    func requestHeadersComplete(_ index: Int) {
        guard !self.streams[index].hasFinalHeaders, !self.streams[index].isConcluded else { return }
        self.streams[index].hasFinalHeaders = true
        if self.configuration.reportsRequestsEarly || self.configuration.headerReporting?.isOn == true {
            self.report(index, isComplete: false)
        }
    }

    func requestComplete(_ index: Int) {
        guard !self.streams[index].isConcluded else { return }
        if !self.configuration.reportsRequestsEarly { self.report(index, isComplete: true) }
    }

    func streamClosed(_ index: Int, _ code: HTTP2ErrorCode) {
        if !self.scriptedBodies.isEmpty { self.scriptedBodies[self.streams[index].streamID] = nil }
        self.closedStreams.append((self.streams[index].streamID, code))
    }

    private func report(_ index: Int, isComplete: Bool) {
        self.requests.append(
            ServerRequest(
                streamID: self.streams[index].streamID,
                fields: self.streams[index].fields,
                body: self.streams[index].body,
                isComplete: isComplete
            )
        )
    }

    /// Responds to a request. Does nothing if its stream is already closed.
    package func respond(streamID: Int32, status: Int, fields: FieldList, body: [UInt8]) throws(WireError) {
        guard let index = self.streams.index(of: streamID, hint: self.lastRespondedIndex) else { return }
        self.lastRespondedIndex = index
        self.bodies.release(entry: self.streams[index].outgoing)
        self.streams[index].outgoing = body.isEmpty ? RefCountTable<[UInt8]>.none : self.bodies.insert(body)
        self.streams[index].outgoingCount = body.count
        self.streams[index].outgoingOffset = 0
        let code = self.withResponseFields(status: status, fields: fields) { nva, count in
            self.withSession {
                capns_submit_response(
                    $0,
                    streamID,
                    nva,
                    count,
                    body.isEmpty ? nil : Self.readBody,
                    UInt(bitPattern: index + 1)
                )
            }
        }
        if let code = code ?? nil, code != 0 { throw Self.error(code) }
    }

    /// Lays out the fields of a response for nghttp2, which copies them.
    func withResponseFields<Result>(
        status: Int,
        fields: FieldList,
        _ body: (UnsafePointer<nghttp2_nv>, Int) -> Result
    ) -> Result? {
        var digits = (UInt8(ascii: "0"), UInt8(ascii: "0"), UInt8(ascii: "0"))
        digits.0 += UInt8(truncatingIfNeeded: status / 100 % 10)
        digits.1 += UInt8(truncatingIfNeeded: status / 10 % 10)
        digits.2 += UInt8(truncatingIfNeeded: status % 10)
        let statusName: StaticString = ":status"
        return withUnsafeBytes(of: &digits) { digits in
            let first = (
                FieldList.Bytes(start: statusName.utf8Start, count: statusName.utf8CodeUnitCount),
                digits.bindMemory(to: UInt8.self)
            )
            return self.withFields(fields, after: first, body)
        }
    }

    /// Lays out fields for nghttp2, which copies them.
    func withFields<Result>(
        _ fields: FieldList,
        after first: (FieldList.Bytes, FieldList.Bytes)? = nil,
        _ body: (UnsafePointer<nghttp2_nv>, Int) -> Result
    ) -> Result? {
        var count = 0
        let add = { (name: FieldList.Bytes, value: FieldList.Bytes) in
            guard count < self.scratch.count else { return }
            self.scratch[count] = nghttp2_nv(
                name: UnsafeMutablePointer(mutating: name.baseAddress),
                value: UnsafeMutablePointer(mutating: value.baseAddress),
                namelen: name.count,
                valuelen: value.count,
                flags: UInt8(NGHTTP2_NV_FLAG_NONE.rawValue)
            )
            count += 1
        }
        if let first { add(first.0, first.1) }
        return fields.withFields(each: add) {
            self.scratch.baseAddress.map { body(UnsafePointer($0), count) }
        }
    }
}
