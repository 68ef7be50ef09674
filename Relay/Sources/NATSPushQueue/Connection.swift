#if NATS
    import CNATS
    import JournalPushQueue
    import PushQueue

    #if canImport(Glibc)
        import Glibc
    #elseif canImport(Musl)
        import Musl
    #else
        import Darwin
    #endif

    /// The owner of a `natsConnection`.
    // Sendable because libnats locks the connection in each function, and the pointer never changes. The last owner
    // destroys it, so no function runs after that.
    final class Connection: @unchecked Sendable {
        let pointer: OpaquePointer

        /// Connects. Blocks.
        ///
        /// - Parameters:
        ///   - options: where to and how.
        ///   - handler: the key of the handler of the connection's events; 0 for none.
        ///   - sendsAtOnce: whether a message is sent alone, rather than up to a millisecond later together with others.
        init(_ options: NATSOptions, handler: UInt, sendsAtOnce: Bool = true) throws(QueueError) {
            let settings = try ConnectionOptions(options, handler: handler, sendsAtOnce: sendsAtOnce)
            var pointer: OpaquePointer?
            try QueueError.check(
                natsConnection_Connect(&pointer, settings.pointer),
                "Connecting to \(options.servers.count) broker(s)"
            )
            guard let pointer else {
                throw QueueError(code: .unavailable, message: "Connecting to the brokers gave no connection.")
            }
            self.pointer = pointer
        }

        deinit { natsConnection_Destroy(self.pointer) }

        /// The most bytes of a message.
        var maximumPayload: Int { Int(clamping: natsConnection_GetMaxPayload(self.pointer)) }

        func close() { natsConnection_Close(self.pointer) }

        /// Sends a message. The broker sends its response to the subject `reply`.
        func publish(
            _ bytes: [UInt8],
            to subject: String,
            reply: String?,
            headers: [(name: String, value: String)]
        ) throws(QueueError) {
            var message: OpaquePointer?
            let status = bytes.withUnsafeBufferPointer { buffer in
                buffer.withMemoryRebound(to: CChar.self) { characters in
                    natsMsg_Create(&message, subject, reply, characters.baseAddress, Int32(clamping: bytes.count))
                }
            }
            try QueueError.check(status, "Creating a message")
            defer { natsMsg_Destroy(message) }
            for (name, value) in headers {
                try QueueError.check(natsMsgHeader_Set(message, name, value), "Setting a header of a message")
            }
            try QueueError.check(natsConnection_PublishMsg(self.pointer, message), "Sending a message")
        }
    }

    /// The owner of a `natsOptions`.
    private final class ConnectionOptions {
        let pointer: OpaquePointer

        init(_ options: NATSOptions, handler: UInt, sendsAtOnce: Bool) throws(QueueError) {
            var pointer: OpaquePointer?
            try QueueError.check(natsOptions_Create(&pointer), "Creating options")
            guard let pointer else { throw QueueError(code: .unavailable, message: "There is no memory for options.") }
            self.pointer = pointer
            try self.setServers(options.servers)
            try QueueError.check(
                natsOptions_SetWriteDeadline(self.pointer, 5_000),
                "Setting the time limit for writing"
            )
            try QueueError.check(natsOptions_SetSendAsap(self.pointer, sendsAtOnce), "Setting the way of sending")
            try self.setAccess(options)
            try self.setEvents(handler)
        }

        deinit { natsOptions_Destroy(self.pointer) }

        private func setServers(_ servers: [String]) throws(QueueError) {
            var names: [UnsafePointer<CChar>?] = servers.map { UnsafePointer(strdup($0)) }
            defer { for name in names { free(UnsafeMutableRawPointer(mutating: name)) } }
            try QueueError.check(
                natsOptions_SetServers(self.pointer, &names, Int32(clamping: names.count)),
                "Reading the addresses of the brokers",
                code: .unusable
            )
            try QueueError.check(natsOptions_SetName(self.pointer, "apns-relay"), "Setting the name")
            try QueueError.check(natsOptions_SetMaxReconnect(self.pointer, -1), "Setting reconnects")
            try QueueError.check(natsOptions_SetReconnectWait(self.pointer, 250), "Setting the wait")
            try QueueError.check(natsOptions_SetPingInterval(self.pointer, 5_000), "Setting pings")
            try QueueError.check(natsOptions_SetMaxPingsOut(self.pointer, 2), "Setting pings")
        }

        private func setAccess(_ options: NATSOptions) throws(QueueError) {
            if let file = options.credentialsFile {
                try QueueError.check(
                    natsOptions_SetUserCredentialsFromFiles(self.pointer, file, nil),
                    "Reading the credentials \(file)",
                    code: .unusable
                )
            }
            guard let tls = options.tls else { return }
            try QueueError.check(natsOptions_SetSecure(self.pointer, true), "Enabling TLS", code: .unusable)
            if let file = tls.caFile {
                try QueueError.check(
                    natsOptions_LoadCATrustedCertificates(self.pointer, file),
                    "Reading the trusted certificates \(file)",
                    code: .unusable
                )
            }
            if let certificate = tls.certificateFile, let key = tls.keyFile {
                try QueueError.check(
                    natsOptions_LoadCertificatesChain(self.pointer, certificate, key),
                    "Reading the certificate \(certificate) and the key \(key)",
                    code: .unusable
                )
            }
            if let host = tls.expectedHost {
                try QueueError.check(
                    natsOptions_SetExpectedHostname(self.pointer, host),
                    "Setting the broker's name",
                    code: .unusable
                )
            }
        }

        private func setEvents(_ handler: UInt) throws(QueueError) {
            let closure = UnsafeMutableRawPointer(bitPattern: handler)
            try QueueError.check(
                natsOptions_SetReconnectedCB(
                    self.pointer,
                    { _, closure in HandlerTable.shared.send(.reconnected, to: closure) },
                    closure
                ),
                "Setting a callback"
            )
            // Missed heartbeats and dropped messages: the reader begins again after its last entry.
            try QueueError.check(
                natsOptions_SetErrorHandler(
                    self.pointer,
                    { _, _, _, closure in HandlerTable.shared.send(.interrupted, to: closure) },
                    closure
                ),
                "Setting a callback"
            )
            // libnats connects again by itself, but gives up if a broker refuses the credentials twice.
            try QueueError.check(
                natsOptions_SetClosedCB(
                    self.pointer,
                    { connection, closure in
                        HandlerTable.shared.send(.closed(Connection.refusal(connection)), to: closure)
                    },
                    closure
                ),
                "Setting a callback"
            )
        }
    }

    extension Connection {
        /// Why libnats has closed a connection for good.
        fileprivate static func refusal(_ connection: OpaquePointer?) -> QueueError {
            var text: UnsafePointer<CChar>?
            _ = natsConnection_GetLastError(connection, &text)
            let reason = text.map { String(cString: $0) } ?? "no reason was given"
            return QueueError(
                code: .unusable,
                message: "The brokers have refused the connection: \(reason). Check the credentials of the relay."
            )
        }
    }
#endif
