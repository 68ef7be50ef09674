import APNSModel
package import PushQueue

/// The relay's settings that `apns.enqueue` needs to check pushes of other programs and to add defaults.
package struct SQLIntake: Sendable, Hashable {
    package struct App: Sendable, Hashable {
        package var name: String
        /// The topic without the suffix of a push type.
        package var topic: String
        package var environments: [String]
        /// The environment of a push that names none; nil if each must.
        package var defaultEnvironment: String?
        /// The maximum number of pushes without an outcome; nil for no limit.
        package var capacity: Int?

        package init(
            name: String,
            topic: String,
            environments: [String],
            defaultEnvironment: String?,
            capacity: Int? = nil
        ) {
            self.name = name
            self.topic = topic
            self.environments = environments
            self.defaultEnvironment = defaultEnvironment
            self.capacity = capacity
        }
    }

    package var apps: [App]
    package var defaultDeadline: Duration
    package var maxDeadline: Duration

    package init(apps: [App], defaultDeadline: Duration, maxDeadline: Duration) {
        self.apps = apps
        self.defaultDeadline = defaultDeadline
        self.maxDeadline = maxDeadline
    }

    /// The parameters of `apns.publish_intake`.
    var parameters: Parameters {
        var parameters = Parameters()
        parameters.add(self.defaultDeadline.milliseconds)
        parameters.add(self.maxDeadline.milliseconds)
        parameters.add(self.apps.lazy.map(\.name))
        parameters.add(self.apps.lazy.map(\.topic))
        parameters.add(self.apps.lazy.map { $0.environments.sorted().joined(separator: ",") })
        parameters.add(self.apps.lazy.map(\.defaultEnvironment))
        parameters.add(self.apps.lazy.map { $0.capacity.map { Int64($0) } })
        parameters.add(PushType.known.lazy.map(\.rawValue))
        parameters.add(PushType.known.lazy.map(\.topicSuffix))
        parameters.add(PushType.known.lazy.map { Int32(clamping: $0.payloadLimit) })
        parameters.add(
            PushType.known.lazy.map { $0.allowedPriorities.map { "\($0.rawValue)" }.joined(separator: ",") }
        )
        return parameters
    }
}

extension PostgresPushQueue {
    /// Stores the settings that `apns.enqueue` needs. All relays of a database store the same.
    package func publish(_ intake: SQLIntake) async throws(QueueError) {
        try await self.call(
            "SELECT apns.publish_intake($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
            .harmless,
            intake.parameters
        ) { _, _ in }
    }

    /// Tells `apns.enqueue` whether the queue is full, and how many pushes without an outcome each app has.
    func publish(isFull: Bool, _ unsettled: [String: Int]) async throws(QueueError) {
        var parameters = Parameters()
        parameters.add(isFull)
        parameters.add(unsettled.lazy.map(\.key))
        parameters.add(unsettled.lazy.map { Int64($0.value) })
        try await self.call("SELECT apns.publish_full($1, $2, $3)", .harmless, parameters) { _, _ in }
    }
}
