import CAPNSNghttp2

/// A request that a server received.
package struct ServerRequest: Sendable {
    package var streamID: Int32
    package var fields: FieldList
    package var body: [UInt8]
    /// False when it was reported early and its body may still come.
    package var isComplete: Bool
}

extension HTTP2Session {
    func requestHeadersComplete(_ index: Int) {
        guard !self.streams[index].hasFinalHeaders else { return }
        self.streams[index].hasFinalHeaders = true
        if self.configuration.reportsRequestsEarly { self.report(index, isComplete: false) }
    }

    func requestComplete(_ index: Int) {
        if !self.configuration.reportsRequestsEarly { self.report(index, isComplete: true) }
    }

    func streamClosed(_ index: Int, _ code: HTTP2ErrorCode) {
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

    /// Answers a request. Nothing happens when its stream is closed already.
    package func respond(streamID: Int32, status: Int, fields: FieldList, body: [UInt8]) throws(WireError) {
        guard let index = self.streams.index(of: streamID, hint: self.lastRespondedIndex) else { return }
        self.lastRespondedIndex = index
        self.streams[index].outgoingBody = body
        self.streams[index].outgoingOffset = 0
        let code = Self.withResponseFields(status: status, fields: fields) { nva, count in
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

    private static func withResponseFields<Result>(
        status: Int,
        fields: FieldList,
        _ body: (UnsafePointer<nghttp2_nv>, Int) -> Result
    ) -> Result? {
        var list = FieldList()
        list.append(name: ":status", value: String(status))
        list.append(contentsOf: fields)
        return list.withFields { pairs in
            let entries = pairs.map { pair in
                nghttp2_nv(
                    name: UnsafeMutablePointer(mutating: pair.name.baseAddress),
                    value: UnsafeMutablePointer(mutating: pair.value.baseAddress),
                    namelen: pair.name.count,
                    valuelen: pair.value.count,
                    flags: UInt8(NGHTTP2_NV_FLAG_NONE.rawValue)
                )
            }
            return entries.withUnsafeBufferPointer { buffer in
                buffer.baseAddress.map { body($0, buffer.count) }
            }
        }
    }
}
