import Synchronization
import APNSModel
import Logging

extension SendContext {
    /// Logs that APNs counts too many provider tokens of this key. Another process with the same key is the usual reason.
    func logTooManyUpdates(_ time: Duration) {
        self.logger.error(
            "APNs has seen too many provider tokens of this key; the one in use is kept. Do other processes sign for it?",
            metadata: ["credential": "\(self.credentialName)", "no-new-token-for": "\(time)"]
        )
    }

    /// Logs, once, that this machine's clock differs from the `date` of a response that refused the provider token.
    func logClockSkew(_ date: String?) {
        guard let hint = ClockSkew.skewHint(dateHeader: date, wallNow: self.configuration.wallClock()),
            !self.counters.isClockSkewTold.exchange(true, ordering: .relaxed)
        else { return }
        self.logger.error("APNs refuses the provider token", metadata: ["clock": "\(hint)"])
    }

    /// Logs, once, that APNs calls fresh provider tokens expired.
    func logClockSuspect() {
        guard !self.counters.isClockSuspectTold.exchange(true, ordering: .relaxed) else { return }
        self.logger.error(
            "APNs refuses a provider token that was just signed, because of its time: is this machine's clock right?"
        )
    }

    /// Logs a push that was not accepted, at `debug`.
    func logFailure(_ error: PushError, _ push: PreparedPush, _ token: DeviceToken) {
        // Makes nothing of a line that nobody reads.
        guard self.logger.logLevel <= .debug else { return }
        var metadata: Logger.Metadata = [
            "topic": "\(push.topic)",
            "type": "\(push.pushType.rawValue)",
            "outcome": "\(error.certainty.rawValue)",
            "reason": "\(error.rejection?.reason?.rawValue ?? error.code.rawValue)",
            "attempts": "\(error.attempts)",
        ]
        if let id = error.apnsID { metadata["apns-id"] = "\(id)" }
        if let text = self.configuration.logging.text(of: token) { metadata["device-token"] = "\(text)" }
        self.logger.debug("a push was not accepted", metadata: metadata)
    }
}
