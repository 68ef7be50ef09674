import APNSModel

extension SendContext {
    /// Checks the end of a push that no bulk call's detector watches for signs of a wrong environment or topic.
    func watchForMassRejection(_ end: AttemptEnd, _ token: DeviceToken, topic: String) {
        switch end {
        case .accepted:
            self.tokenWorks(token)
        case .rejected(let rejection, _) where rejection.status == 410:
            self.tokenWorks(token)
        case .rejected(let rejection, _) where MassRejectionDetector.counts(rejection):
            let inFlight = self.lifecycle.pushesInFlight
            if self.massRejection.rejected(token, inFlight: inFlight) {
                self.monitor.reportMassRejection(rejection, topic: topic, credential: self.credentialName)
            }
        default:
            break
        }
    }

    /// Records a response that only the right environment and topic can produce for this token.
    func tokenWorks(_ token: DeviceToken) {
        if self.massRejection.recordWorkingToken(token) { self.monitor.reportMassRejectionOver() }
    }

    /// The end of pushes that a bulk call leaves unsent after it stopped because of mass rejection.
    func suspectedMisconfiguration(_ rejection: Rejection, topic: String, detector: MassRejectionDetector) -> AttemptEnd
    {
        let environment = self.configuration.environment
        return .notSent(
            .suspectedMisconfiguration,
            """
            \(detector.rejections) of the last \(detector.window) device tokens were refused \
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
