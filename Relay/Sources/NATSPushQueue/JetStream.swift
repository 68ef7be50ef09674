#if NATS
    import APNSModel
    import CNATS
    import JournalPushQueue
    import PushQueue

    /// The owner of a `jsCtx`. All functions block.
    // Sendable because libnats locks the context in each function, and the pointer never changes.
    final class JetStream: @unchecked Sendable {
        let pointer: OpaquePointer
        /// Contexts end before their connection.
        let connection: Connection

        init(_ connection: Connection) throws(QueueError) {
            var pointer: OpaquePointer?
            try QueueError.check(natsConnection_JetStream(&pointer, connection.pointer, nil), "Using JetStream")
            guard let pointer else { throw QueueError(code: .unavailable, message: "There is no memory.") }
            self.pointer = pointer
            self.connection = connection
        }

        deinit { jsCtx_Destroy(self.pointer) }

        /// Creates the streams if they do not exist.
        ///
        /// - Parameter timeout: how long to wait for brokers that elect a leader or read their store.
        /// - Returns: the unique name of the journal. A stream that is deleted and created again gets a new name. A
        ///   stream that is restored from a backup keeps its name.
        func openStreams(_ options: NATSOptions, timeout: Duration) throws(QueueError) -> String {
            self.waitForStream(options.snapshotStream, timeout: timeout)
            self.waitForStream(options.stream, timeout: timeout)
            try self.openStream(options.snapshotStream, "\(options.snapshotSubject).>", options) { config in
                config.MaxMsgsPerSubject = 1
                config.AllowDirect = true
            } check: { _ throws(QueueError) in
            }
            var name = ""
            try self.openStream(options.stream, options.subject, options) { _ in
            } check: { info throws(QueueError) in
                guard let config = info.Config?.pointee else { return }
                try Self.check(config, options)
                name = config.Description.map { String(cString: $0) } ?? ""
            }
            return name
        }

        /// Which messages a stream has. Throws while the stream has no leader, because other brokers may not have all
        /// of its messages.
        func extent(_ stream: String) throws(QueueError) -> JournalExtent {
            var info: UnsafeMutablePointer<jsStreamInfo>?
            defer { jsStreamInfo_Destroy(info) }
            let status = js_GetStreamInfo(&info, self.pointer, stream, nil, nil)
            try QueueError.check(status, "Reading the state of the stream \(stream)")
            guard let state = info?.pointee.State else {
                throw QueueError(code: .unavailable, message: "The broker says nothing about the stream \(stream).")
            }
            if let cluster = info?.pointee.Cluster, cluster.pointee.Leader.map({ $0.pointee == 0 }) ?? true {
                throw QueueError(code: .unavailable, message: "The stream \(stream) has no leader now.")
            }
            return JournalExtent(
                first: state.Msgs == 0 ? state.LastSeq &+ 1 : state.FirstSeq,
                last: state.LastSeq
            )
        }

        /// The state of the journal's stream in words. Creates nothing.
        func describe(_ options: NATSOptions) throws(QueueError) -> String {
            var info: UnsafeMutablePointer<jsStreamInfo>?
            var code = jsErrCode(rawValue: 0)
            let status = js_GetStreamInfo(&info, self.pointer, options.stream, nil, &code)
            defer { jsStreamInfo_Destroy(info) }
            if status == NATS_NOT_FOUND, code == JSStreamNotFoundErr {
                return "the stream \(options.stream) does not exist yet; the first relay creates it"
            }
            try QueueError.check(status, "Reading the state of the stream \(options.stream)")
            guard let info = info?.pointee, let config = info.Config?.pointee else {
                return "the broker says nothing about the stream \(options.stream)"
            }
            try Self.check(config, options)
            return "the stream \(options.stream) has \(info.State.Msgs) entries, \(info.State.Bytes) bytes and "
                + "\(config.Replicas) replicas"
        }

        /// Waits until the brokers respond to a question about a stream, or until the timeout.
        private func waitForStream(_ name: String, timeout: Duration) {
            let start = ContinuousClock.now
            while true {
                var info: UnsafeMutablePointer<jsStreamInfo>?
                var code = jsErrCode(rawValue: 0)
                let status = js_GetStreamInfo(&info, self.pointer, name, nil, &code)
                jsStreamInfo_Destroy(info)
                let isAway = status == NATS_TIMEOUT || status == NATS_NO_RESPONDERS || code == JSClusterNotAvailErr
                guard isAway, start.duration(to: .now) < timeout else { return }
                nats_Sleep(100)
            }
        }

        /// Opens a stream without changing it, or creates it with a unique name as its description.
        ///
        /// - Parameters:
        ///   - configure: changes the settings with which the stream is created.
        ///   - check: gets the state of the stream.
        func openStream(
            _ name: String,
            _ subject: String,
            _ options: NATSOptions,
            configure: (inout jsStreamConfig) -> Void,
            check: (jsStreamInfo) throws(QueueError) -> Void
        ) throws(QueueError) {
            var info: UnsafeMutablePointer<jsStreamInfo>?
            var code = jsErrCode(rawValue: 0)
            var status = js_GetStreamInfo(&info, self.pointer, name, nil, &code)
            if status == NATS_NOT_FOUND, code == JSStreamNotFoundErr {
                var config = jsStreamConfig()
                try QueueError.check(jsStreamConfig_Init(&config), "Preparing a stream")
                config.Retention = js_LimitsPolicy
                config.Discard = js_DiscardNew
                config.Storage = js_FileStorage
                config.Replicas = Int64(clamping: options.replicas)
                config.MaxBytes = options.maximumBytes ?? -1
                config.DenyDelete = true
                configure(&config)
                status = "\(APNSID.random())".withCString { description in
                    config.Description = description
                    return self.addStream(&info, name, subject, &config, &code)
                }
                // Another relay was faster.
                if code == JSStreamNameExistErr { status = js_GetStreamInfo(&info, self.pointer, name, nil, nil) }
            }
            defer { jsStreamInfo_Destroy(info) }
            try QueueError.check(status, "Opening the stream \(name)")
            guard let info else {
                throw QueueError(code: .unavailable, message: "The broker says nothing about the stream \(name).")
            }
            try check(info.pointee)
        }

        private func addStream(
            _ info: inout UnsafeMutablePointer<jsStreamInfo>?,
            _ name: String,
            _ subject: String,
            _ config: inout jsStreamConfig,
            _ code: inout jsErrCode
        ) -> natsStatus {
            name.withCString { name in
                subject.withCString { subject in
                    var subjects: UnsafePointer<CChar>? = subject
                    return withUnsafeMutablePointer(to: &subjects) { subjects in
                        config.Name = name
                        config.Subjects = subjects
                        config.SubjectsLen = 1
                        return js_AddStream(&info, self.pointer, &config, nil, &code)
                    }
                }
            }
        }

        /// Throws if the stream deletes messages by itself, because the queue would lose entries.
        private static func check(
            _ config: jsStreamConfig,
            _ options: NATSOptions
        ) throws(QueueError) {
            let keepsAll =
                config.Retention == js_LimitsPolicy && config.Discard == js_DiscardNew && config.MaxAge <= 0
                && config.MaxMsgsPerSubject <= 0
            guard keepsAll else {
                throw QueueError(
                    code: .unusable,
                    message: "The stream \(options.stream) deletes old messages. Use another name, or set its "
                        + "retention to limits and its discard to new, and remove the maximum age and the maximum of "
                        + "messages per subject."
                )
            }
        }

        /// The last message with a subject; nil if there is none.
        func lastMessage(
            _ stream: String,
            _ subject: String
        ) throws(QueueError) -> (bytes: [UInt8], sequence: UInt64)? {
            var message: OpaquePointer?
            let status = js_GetLastMsg(&message, self.pointer, stream, subject, nil, nil)
            guard status != NATS_NOT_FOUND else { return nil }
            try QueueError.check(status, "Reading \(subject)")
            defer { natsMsg_Destroy(message) }
            return (Message.bytes(of: message), natsMsg_GetSequence(message))
        }

        /// A message with a subject from any broker that has it; nil if there is none.
        func message(_ stream: String, _ subject: String) throws(QueueError) -> [UInt8]? {
            var message: OpaquePointer?
            let status = subject.withCString { subject in
                var options = jsDirectGetMsgOptions()
                let status = jsDirectGetMsgOptions_Init(&options)
                guard status == NATS_OK else { return status }
                options.LastBySubject = subject
                return js_DirectGetMsg(&message, self.pointer, stream, nil, &options)
            }
            guard status != NATS_NOT_FOUND else { return nil }
            try QueueError.check(status, "Reading \(subject)")
            defer { natsMsg_Destroy(message) }
            return Message.bytes(of: message)
        }

        /// Stores a message and waits for the response.
        ///
        /// - Parameter sequence: the expected position of the last message with this subject; 0 if there must be none,
        ///   nil to store the message in any case. Of two messages with the same expected position, only one is stored.
        /// - Returns: the position of the message in its stream.
        func publish(_ bytes: [UInt8], to subject: String, after sequence: UInt64?) throws(QueueError) -> UInt64 {
            var response: UnsafeMutablePointer<jsPubAck>?
            defer { jsPubAck_Destroy(response) }
            var options = jsPubOptions()
            try QueueError.check(jsPubOptions_Init(&options), "Preparing a message")
            if let sequence {
                options.ExpectLastSubjectSeq = sequence
                options.ExpectNoMessage = sequence == 0
            }
            let status = bytes.withUnsafeBytes { buffer in
                // In a cluster of an older version, the leader checks the position only before it proposes the message
                // to the replicas, so it may accept two messages. The replicas check the id when they store a message.
                (sequence.map { "\(subject)-\($0)" } ?? "\(APNSID.random())").withCString { id in
                    options.MsgId = id
                    return js_Publish(
                        &response,
                        self.pointer,
                        subject,
                        buffer.baseAddress,
                        Int32(clamping: buffer.count),
                        &options,
                        nil
                    )
                }
            }
            // Without a response, the message may have been stored, or may be stored later.
            let code: QueueError.Code = status == NATS_TIMEOUT ? .undecided : .unavailable
            try QueueError.check(status, "Storing \(subject)", code: code)
            guard let response = response?.pointee, !response.Duplicate else {
                throw QueueError(code: .unavailable, message: "Storing \(subject) failed: another relay was faster.")
            }
            return response.Sequence
        }

        func purge(_ stream: String, subject: String) throws(QueueError) {
            let status = subject.withCString { subject in
                self.purge(stream) { $0.Stream.Purge.Subject = subject }
            }
            try QueueError.check(status, "Deleting \(subject)")
        }

        /// Deletes the messages before a position. If the stream ends before it, the next message gets this position.
        func purge(_ stream: String, before position: UInt64) throws(QueueError) {
            let status = self.purge(stream) { $0.Stream.Purge.Sequence = position }
            try QueueError.check(status, "Deleting entries of \(stream)")
        }

        private func purge(_ stream: String, _ configure: (inout jsOptions) -> Void) -> natsStatus {
            var options = jsOptions()
            let status = jsOptions_Init(&options)
            guard status == NATS_OK else { return status }
            configure(&options)
            return js_PurgeStream(self.pointer, stream, &options, nil)
        }
    }
#endif
