import APNSModel
import APNSPool
import PushQueue

/// Why pushes are not being delivered or accepted, or why outcomes do not reach a webhook, for operators.
struct DeliveryProblem: Sendable, Hashable {
    enum Cause: String, Sendable, CaseIterable {
        /// APNs refuses a key or a certificate, or no provider token can be signed.
        case credential
        /// APNs cannot be reached, or answers every push with the same failure.
        case apns
        /// No connection to APNs can be made as it is configured.
        case configuration
        /// APNs rejects so many device tokens that the environment, the topic or the key must be wrong.
        case rejections
        /// A batch is damaged, or a newer version wrote it.
        case batch
        /// The queue cannot be read or written.
        case storage
        /// The disk has only room for outcomes.
        case disk
        /// A webhook's receiver has not acknowledged a request for an hour, or its position cannot be read.
        case webhook
    }

    var cause: Cause
    /// The apps and environments that it affects; empty for all.
    var apps: [AppEnvironment]
    /// The batch that it affects; nil if it does not affect a batch alone.
    var batch: APNSID?
    /// What is wrong.
    var message: String
    var since: QueueTime

    /// An app in an environment.
    struct AppEnvironment: Sendable, Hashable {
        var app: String
        var environment: String
    }

    /// What does not work.
    var effect: String {
        switch self.cause {
        case .credential, .apns, .configuration, .storage: "Pushes are not being delivered."
        case .rejections: "APNs rejects most pushes."
        case .batch: "The pushes of a batch are not being delivered."
        case .disk: "New pushes are refused."
        case .webhook: "Outcomes do not reach a webhook."
        }
    }

    /// What to do.
    var remedy: String {
        switch self.cause {
        case .credential:
            "Check the key, its id and its team with apns-relay doctor, and replace the file or the settings; the relay reads "
                + "them again."
        case .apns:
            "The relay goes on trying. If it lasts, check the network, and Apple's system status at "
                + "https://developer.apple.com/system-status/."
        case .configuration:
            "Check the settings of the app and of the server with apns-relay doctor."
        case .rejections:
            "Do not delete the device tokens. Check that they belong to the app's environment, topic and key; pause the batch "
                + "that they come from."
        case .batch:
            "If a newer version wrote it, update this relay. Otherwise submit its pushes again: they end as not-sent at their "
                + "deadlines."
        case .storage:
            "The relay goes on trying. Check that the database runs and can be reached, or the disk with the file. Accepted "
                + "pushes are not lost."
        case .disk:
            "Accepted pushes are sent. Free some space or enlarge the disk; the relay then accepts pushes by itself."
        case .webhook:
            "Later outcomes wait. If a receiver fails, repair it, or skip the request on the page; its outcomes stay in the "
                + "feed."
        }
    }

    func affects(_ route: Route) -> Bool {
        guard self.cause != .webhook else { return false }
        if let batch { return route.batch == batch }
        return self.apps.isEmpty || self.apps.contains(AppEnvironment(app: route.app, environment: route.environment))
    }
}

/// A client that delivers nothing, or whose pushes APNs rejects.
struct DeliveryFailure: Sendable, Hashable {
    var cause: DeliveryProblem.Cause
    var message: String
}

extension DeliveryFailure {
    /// Nil if the client delivers pushes.
    init?(_ health: APNSHealth) {
        switch health {
        case .failing(let cause): self.init(cause)
        case .degraded(let cause) where cause.code == .suspectedMisconfiguration: self.init(cause)
        case .degraded, .serving, .starting, .stopped: return nil
        }
    }

    private init(_ cause: APNSHealth.Cause) {
        self.message = cause.message
        switch cause.code {
        case .suspectedMisconfiguration: self.cause = .rejections
        case .credential: self.cause = .credential
        case .configuration: self.cause = .configuration
        default: self.cause = .apns
        }
    }
}
