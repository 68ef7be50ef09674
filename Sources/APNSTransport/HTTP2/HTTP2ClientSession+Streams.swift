import CAPNSNghttp2
package import NIOCore

extension HTTP2ClientSession {
    package enum Submission: Sendable, Hashable {
        case accepted
        /// The request is not sent. No byte of it was written.
        case refused(StreamCause)
    }

    /// Whether another request may be submitted now.
    package var hasCapacity: Bool {
        self.hasPeerSettings && !self.hasGoAway && self.openCount < self.peerMaxConcurrentStreams
    }

    /// Takes a request: opens a stream for it, holds it, or refuses it.
    ///
    /// This method never lets nghttp2 queue a request: if the peer allows no further stream, nothing is submitted. A
    /// request is held while the path is checked, or while the send window does not admit its body. A held request
    /// counts as open.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - tag: The submitter's identifier of the stream.
    ///   - deadline: When the request ends, sent or not, if no response has arrived.
    ///   - responseLimit: How long the response may take once the stream is open.
    ///   - isBulk: Whether its body must leave `SendWindowRule.bulkReserve` of the send window to other streams.
    /// - Throws: the error of nghttp2.
    package func submit(
        _ request: HTTP2Request,
        tag: StreamTag,
        deadline: NIODeadline,
        responseLimit: TimeAmount = .nanoseconds(.max),
        isBulk: Bool = false,
        now: NIODeadline
    ) throws(WireError) -> Submission {
        guard self.hasCapacity else { return .refused(.noCapacity) }
        let body = request.body.isEmpty ? RefCountTable<[UInt8]>.none : self.bodies.insert(request.body)
        defer { self.bodies.release(entry: body) }
        guard let sharedFields = self.sharedEntry(request.shared, request.credential) else { return .refused(.faulty) }
        defer { self.releaseShared(sharedFields) }
        let stream = NewStream(
            lengths: request.valueLengths,
            sharedFields: sharedFields,
            body: body,
            bodyCount: request.body.count,
            tag: tag,
            deadline: deadline,
            responseLimit: responseLimit,
            isBulk: isBulk
        )
        let result: Result<Submission, WireError> = request.values.withUnsafeBufferPointer { values in
            self.begin(stream, values, now: now)
        }
        return try Self.rethrow(result)
    }

    /// Opens a stream for each entry, with consecutive tags from `firstTag` on. Entries that are not valid, too
    /// late, or for which there is no capacity get their results immediately.
    ///
    /// - Returns: The earliest deadline of the requests. If nghttp2 rejects a request, `broken` is the error: that
    ///   request's result is `faulty`, and the requests after it are not submitted.
    package func submit(
        _ batch: RequestBatch,
        firstTag: StreamTag,
        now: NIODeadline
    ) -> (earliest: NIODeadline, broken: WireError?) {
        var earliest = NIODeadline.distantFuture
        guard !batch.entries.isEmpty else { return (earliest, nil) }
        var broken: WireError?
        guard let sharedFields = self.sharedEntry(batch.shared, batch.credential) else {
            for number in batch.entries.indices {
                self.results.append(.notSent(.faulty, tag: firstTag.advanced(by: number)))
            }
            return (earliest, nil)
        }
        let commonBody = batch.body.isEmpty ? RefCountTable<[UInt8]>.none : self.bodies.insert(batch.body)
        batch.values.withUnsafeBufferPointer { values in
            var position = 0
            for number in batch.entries.indices {
                let lengths = batch.entries[number].valueLengths
                let end = min(position + batch.entries[number].valueCount, values.count)
                let tag = firstTag.advanced(by: number)
                guard broken == nil, self.hasCapacity else {
                    self.results.append(.notSent(.noCapacity, tag: tag))
                    continue
                }
                let isCommon = batch.entries[number].body.isEmpty
                let body = isCommon ? commonBody : self.bodies.insert(batch.entries[number].body)
                let stream = NewStream(
                    lengths: lengths,
                    sharedFields: sharedFields,
                    body: body,
                    bodyCount: isCommon ? batch.body.count : batch.entries[number].body.count,
                    tag: tag,
                    deadline: batch.entries[number].deadline,
                    responseLimit: batch.responseLimit,
                    isBulk: batch.isBulk
                )
                switch self.begin(stream, UnsafeBufferPointer(rebasing: values[position..<end]), now: now) {
                case .success(.accepted):
                    earliest = min(earliest, stream.streamDeadline(now))
                case .success(.refused(let cause)):
                    self.results.append(.notSent(cause, tag: tag))
                case .failure(let error):
                    self.results.append(.notSent(.faulty, tag: tag))
                    broken = error
                }
                if !isCommon { self.bodies.release(entry: body) }
                position = end
            }
        }
        self.bodies.release(entry: commonBody)
        self.releaseShared(sharedFields)
        return (earliest, broken)
    }

    /// Opens a stream for a new request, or holds the request.
    private func begin(
        _ stream: NewStream,
        _ values: UnsafeBufferPointer<UInt8>,
        now: NIODeadline
    ) -> Result<Submission, WireError> {
        guard self.mustHold(bodyCount: stream.bodyCount, isBulk: stream.isBulk) else {
            return self.open(stream, values, now: now)
        }
        self.hold(stream, values)
        return .success(.accepted)
    }

    private static func rethrow(_ result: Result<Submission, WireError>) throws(WireError) -> Submission {
        try result.get()
    }

    /// Opens a stream for a request now, unless its deadline has passed or it is not valid. Returns a `Result`, because
    /// closures do not propagate typed errors.
    func open(
        _ stream: NewStream,
        _ values: UnsafeBufferPointer<UInt8>,
        now: NIODeadline
    ) -> Result<Submission, WireError> {
        // A request that is written after its deadline would end as unknown instead of not sent. A stalled event loop or
        // a suspended process can make it late.
        guard now < stream.deadline else { return .success(.refused(.deadline)) }
        // The first variable field is `:path`, which every request needs.
        let count = stream.lengths.wideSum
        guard stream.lengths[0] > 0, count <= min(values.count, StreamTable.headerBlockLimit) else {
            return .success(.refused(.faulty))
        }
        guard let copy = RequestValues(values, stream.lengths, in: self.memory) else {
            return .failure(Self.error(NGHTTP2_ERR_NOMEM.rawValue))
        }
        let index = self.streams.allocate()
        let submitted = self.withSession {
            capns_submit_request(
                $0,
                stream.bodyCount > 0 ? Self.readBody : nil,
                UInt(bitPattern: index + 1)
            )
        }
        guard let streamID = submitted, streamID > 0 else {
            self.streams.discard(index)
            copy.release(to: self.memory)
            // The stream ids are used up: this connection accepts no more streams (RFC 9113, section 5.1.1).
            if submitted == NGHTTP2_ERR_STREAM_ID_NOT_AVAILABLE.rawValue { return .success(.refused(.noCapacity)) }
            return .failure(submitted.map(Self.error) ?? WireError(.closedLocally, "the session is closed"))
        }
        self.streams[index].streamID = streamID
        self.streams[index].tag = stream.tag
        self.streams[index].sharedFields = stream.sharedFields
        self.streams[index].values = copy
        self.streams[index].outgoing = stream.body
        self.streams[index].outgoingCount = stream.bodyCount
        self.streams[index].deadline = stream.streamDeadline(now)
        if let filter = self.configuration.responseFilter {
            self.streams[index].echo.set(self.value(filter.echoed, in: values, stream.lengths))
        }
        self.retainShared(stream.sharedFields)
        self.bodies.retain(entry: stream.body)
        self.streams.remember(index, tag: stream.tag)
        self.openCount += 1
        self.unwrittenCount += 1
        self.uncopiedBodyBytes += stream.bodyCount
        return .success(.accepted)
    }

    /// Whether so many stream ids are used that the connection should be replaced.
    package var isNearlyExhausted: Bool {
        (self.withSession { Int64(nghttp2_session_get_next_stream_id($0)) } ?? Int64.max)
            >= Int64(Self.nearlyExhaustedStreamID)
    }

    /// For tests of stream id exhaustion: sets the id of the next stream. Throws if nghttp2 rejects it.
    package func setNextStreamID(_ id: Int32) throws(WireError) {
        try self.check { nghttp2_session_set_next_stream_id($0, id) }
    }

    /// Resets the stream with this tag if it is still open, or withdraws the held request with this tag. It gets its
    /// result.
    package func cancel(tag: StreamTag) {
        self.giveUpHeld(cause: .cancelled) { $0.stream.tag == tag }
        if let index = self.streams.index(ofTag: tag) { self.giveUp(index, cause: .cancelled) }
    }

    /// Resets the streams and withdraws the held requests whose deadline has passed, and returns the next deadline.
    package func expire(now: NIODeadline) -> NIODeadline? {
        self.giveUpHeld(cause: .deadline) { $0.stream.deadline <= now }
        var next = self.held.deadline
        for index in self.streams.indices
        where self.streams[index].streamID != 0 && !self.streams[index].isConcluded {
            let deadline = self.streams[index].deadline
            if deadline <= now {
                self.giveUp(index, cause: .deadline)
            } else if next.map({ deadline < $0 }) ?? true {
                next = deadline
            }
        }
        return next
    }

    func giveUp(_ index: Int, cause: StreamCause) {
        let streamID = self.streams[index].streamID
        self.conclude(index, cause: cause)
        _ = self.withSession {
            nghttp2_submit_rst_stream(
                $0,
                UInt8(NGHTTP2_FLAG_NONE.rawValue),
                streamID,
                HTTP2ErrorCode.cancel.rawValue
            )
        }
    }

    /// Counts this many more bytes as kept for incomplete responses. Returns `false`, and counts nothing, if that would
    /// exceed the limit.
    func countKept(_ count: Int) -> Bool {
        guard self.keptBytes + count <= max(StreamTable.keptLimit, self.configuration.responseBodyLimit) else {
            return false
        }
        self.keptBytes += count
        return true
    }

    /// Subtracts the stored bytes of this response, which are about to be removed.
    func forgetKept(_ index: Int) {
        self.keptBytes -= self.streams[index].fields.byteCount + self.streams[index].body.count
    }

    /// Gives the stream its only result.
    func conclude(_ index: Int, cause: StreamCause) {
        guard !self.streams[index].isConcluded else { return }
        let ending = StreamCertainty.ending(
            hasFinalHeaders: self.streams[index].hasFinalHeaders,
            isWritten: self.streams[index].isWritten,
            cause: cause,
            streamID: self.streams[index].streamID,
            lowestGoAwayStreamID: self.lowestGoAwayStreamID
        )
        if !self.streams[index].isWritten {
            self.unwrittenCount -= 1
        } else if !self.streams[index].hasFinalHeaders {
            // This includes streams that we reset: the peer's frames for them may still arrive.
            self.glitches.streamAdvanced()
        }
        self.streams[index].isConcluded = true
        self.openCount -= 1
        guard ending == .response else {
            self.results.append(StreamResult(tag: self.streams[index].tag, ending: ending, cause: cause))
            return
        }
        self.forgetKept(index)
        var fields = FieldList()
        var body: [UInt8] = []
        swap(&fields, &self.streams[index].fields)
        swap(&body, &self.streams[index].body)
        self.results.append(
            StreamResult(
                tag: self.streams[index].tag,
                ending: ending,
                cause: .responded,
                status: Int(self.streams[index].status),
                fields: fields,
                body: body
            )
        )
    }
}
