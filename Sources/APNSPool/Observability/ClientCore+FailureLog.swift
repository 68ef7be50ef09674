import APNSModel
import Logging

extension ClientCore {
    /// One line at `debug` about a push that was not accepted, for those who look for it.
    func logFailure(_ error: PushError, _ push: PreparedPush, _ token: DeviceToken) {
        // Nothing is made of a line that nobody reads.
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
