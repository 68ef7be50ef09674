#if NATS
    import CNATS
    import PushQueue

    extension QueueError {
        /// Throws if a function of libnats failed.
        static func check(
            _ status: natsStatus,
            _ purpose: String,
            code: Code = .unavailable
        ) throws(QueueError) {
            guard status != NATS_OK else { return }
            throw QueueError(code: code, message: "\(purpose) failed: \(Self.text(of: status))")
        }

        static func text(of status: natsStatus) -> String {
            let text = natsStatus_GetText(status).map { String(cString: $0) } ?? "status \(status.rawValue)"
            var lastStatus = NATS_OK
            // The thread's last error belongs to this status only if it says so.
            guard let details = nats_GetLastError(&lastStatus), lastStatus == status else { return text }
            return "\(text): \(String(cString: details))"
        }
    }
#endif
