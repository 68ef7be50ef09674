#if NATS
    import CNATS
    import PushQueue

    extension JetStream {
        /// Reads where the stream of outcomes ends. Creates it if it does not exist. Blocks.
        func endOfOutcomes(_ options: NATSOptions, maximumAge: Duration) throws(QueueError) -> OutcomeStreamEnd {
            var end = OutcomeStreamEnd()
            var isEmpty = true
            try self.openStream(options.outcomesStream, "\(options.outcomesSubject).>", options) { config in
                config.Discard = js_DiscardOld
                // 0 would mean forever.
                config.MaxAge = max(maximumAge.wholeNanoseconds, 1_000_000_000)
            } check: { info throws(QueueError) in
                end.sequence = info.State.LastSeq
                isEmpty = info.State.Msgs == 0
            }
            guard !isEmpty else { return end }
            var message: OpaquePointer?
            let status = js_GetLastMsg(
                &message,
                self.pointer,
                options.outcomesStream,
                "\(options.outcomesSubject).>",
                nil,
                nil
            )
            try QueueError.check(status, "Reading the last outcome of \(options.outcomesStream)")
            defer { natsMsg_Destroy(message) }
            var text: UnsafePointer<CChar>?
            guard natsMsgHeader_Get(message, NATSOutcomeStream.cursorHeader, &text) == NATS_OK, let text,
                let cursor = Int64(String(cString: text))
            else {
                throw QueueError(
                    code: .unusable,
                    message: "The last message of the stream \(options.outcomesStream) has no cursor, so something "
                        + "other than a relay publishes to \(options.outcomesSubject). Stop it, and delete the stream: "
                        + "the relay creates it again, with all outcomes that it has."
                )
            }
            // Messages that were stored in the meantime count, and so do those that somebody has deleted.
            return OutcomeStreamEnd(sequence: max(end.sequence, natsMsg_GetSequence(message)), cursor: cursor)
        }
    }

    extension Duration {
        /// Clamped to the range of `Int64`.
        fileprivate var wholeNanoseconds: Int64 {
            let (seconds, attoseconds) = self.components
            let (whole, isTooLarge) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
            let (sum, overflow) = whole.addingReportingOverflow(attoseconds / 1_000_000_000)
            return isTooLarge || overflow ? (seconds < 0 ? .min : .max) : sum
        }
    }
#endif
