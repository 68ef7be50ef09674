public import APNSModel
import SupervisedPool

/// Sends to one app of a group in one environment and reports the state of the app's client. The client is started when
/// there is something to send.
public struct APNSAppSender: PushSender {
    let sender: GroupSender
    /// The app's name.
    public let app: String
    /// One of the app's environments.
    public let environment: APNSEnvironment

    /// The app's topic, which is that of notifications that name none; nil while the group has no such app.
    public var defaultTopic: String? { self.sender.registry.topic(self.app) }

    /// Delivers one prepared push. A push for a topic that does not belong to the app is not sent (`configuration`).
    public func deliver(_ push: PreparedPush, to token: DeviceToken, options: DeliveryOptions) async -> PushOutcome {
        await self.sender.deliver(
            push,
            topic: push.topic,
            to: token,
            app: self.app,
            environment: self.environment,
            options: options
        )
    }

    /// Delivers one notification, which the app's client encodes. A notification for a topic that does not belong to
    /// the app is not sent (`configuration`).
    public func deliver(
        _ notification: consuming PushNotification,
        to token: DeviceToken,
        options: DeliveryOptions
    ) async -> PushOutcome {
        if notification.topic == nil { notification.topic = self.defaultTopic }
        let topic = notification.topic
        return await self.sender.deliver(
            notification,
            topic: topic,
            to: token,
            app: self.app,
            environment: self.environment,
            options: options
        )
    }

    // MARK: State

    /// The health of the app's client. It is also `serving` if no client runs because there is nothing to send: the
    /// next push starts one. It is `starting` before the group runs and while the app waits for its turn, and `stopped`
    /// from the group's shutdown on. It is `failing` with `configuration` for an unknown app or environment, and if the
    /// client could not be started, for example because its key's file cannot be read, until it can be read again; with
    /// `credential` if its credential was revoked.
    public var health: APNSHealth {
        get async { await self.sender.registry.standing(self.app, self.environment).health }
    }

    /// A snapshot of the app's client, which apps with the same key share; nil while none runs.
    public var status: APNSClientStatus? {
        get async {
            guard case .client(let client) = self.sender.registry.standing(self.app, self.environment) else {
                return nil
            }
            return await client.status
        }
    }

    /// Makes one round trip to APNs with the app's credential and topic, as ``APNSClient/check(topic:within:)`` does.
    /// Starts a client for it if none runs.
    ///
    /// - Parameter time: The time limit. Default 15 s.
    public func check(within time: Duration = .seconds(15)) async -> APNSCheck {
        let deadline = self.sender.registry.now.advanced(by: time)
        switch await self.sender.beginCall(self.app, self.environment, until: deadline) {
        case .failure(let error):
            var check = APNSCheck()
            check.fail(.client, error.message, "check the group's apps, its maxConnections, and whether it is running")
            return check
        case .success(let client):
            defer { client.endCall() }
            // A client that was started for this call may not be running yet.
            _ = await client.runtime.sending.waitUntilRunning(deadline)
            let left = max(self.sender.registry.now.duration(to: deadline), .milliseconds(1))
            return await client.check(topic: self.defaultTopic, within: left)
        }
    }
}

extension APNSAppSender: BulkEngineSender {
    package func makeBulkEngine(
        _ source: BulkSource,
        _ options: BulkOptions,
        _ control: BulkControl
    ) -> any BulkEngine {
        GroupBulkRun(sender: self, source, options, control)
    }
}

extension AppRegistry.Standing {
    var health: APNSHealth {
        get async {
            switch self {
            case .fault(let error):
                .failing(.init(code: error.code == .credential ? .credential : .configuration, message: error.message))
            case .notRunning, .starting: .starting
            case .shutDown: .stopped
            case .idle: .serving
            case .client(let client): await client.health
            }
        }
    }
}
