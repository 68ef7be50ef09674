import APNSModel

extension SendContext {
    /// Records how a single push ended, to detect a wrong environment or topic.
    func watchForMassRejection(_ end: AttemptEnd, _ token: DeviceToken, topic: String) {
        switch end {
        case .accepted:
            self.deviceTokenWorks(token)
        case .rejected(let rejection, _) where rejection.status == 410:
            self.deviceTokenWorks(token)
        case .rejected(let rejection, _) where MassRejectionDetector.counts(rejection):
            self.deviceTokenIsRejected(rejection, token, topic: topic)
        default:
            break
        }
    }

    /// Records a rejection that can be caused by a wrong environment or topic. Not for rejections that a bulk call's own
    /// detector records.
    ///
    /// - Parameter bulkInFlight: the number of pushes that are in flight in the bulk call; 0 for a single push.
    func deviceTokenIsRejected(_ rejection: Rejection, _ token: DeviceToken, topic: String, bulkInFlight: Int = 0) {
        if self.massRejection.rejected(token, inFlight: self.lifecycle.pushesInFlight + bulkInFlight) != nil {
            self.monitor.reportMassRejection(rejection, topic: topic, credential: self.credentialName)
        }
    }

    /// Records a response that only the right environment and topic can produce for this token.
    func deviceTokenWorks(_ token: DeviceToken) {
        if self.massRejection.works(token) { self.monitor.reportMassRejectionOver() }
    }

    /// Reports what the detector of a bulk call has found.
    ///
    /// - Returns: the end of the pushes that the call leaves unsent.
    func massRejectionStops(
        _ rejection: Rejection,
        topic: String,
        _ finding: MassRejectionDetector.Finding
    ) -> AttemptEnd {
        if self.massRejection.detected() {
            self.monitor.reportMassRejection(rejection, topic: topic, credential: self.credentialName)
        }
        let environment = self.configuration.environment
        return .notSent(
            .suspectedMisconfiguration,
            """
            \(finding.rejections) of the last \(finding.window) device tokens were refused \
            (\(rejection.reason?.rawValue ?? "\(rejection.status)")): check the environment (\(environment.name)), the \
            host (\(environment)), the topic (\(topic)) and the credential (\(self.credentialName)); the tokens are \
            most likely good
            """,
            isFinal: true
        )
    }
}

extension APNSEnvironment {
    /// The name of the environment for messages.
    var name: String {
        switch self {
        case .production: "production"
        case .development: "development"
        default: "custom"
        }
    }
}
