import APNSModel
import Synchronization
import Tracing

/// Creates the spans of a client's calls. The tracer is looked up when the client is created and when it runs, so a
/// push without a tracer checks only one flag.
final class ClientTracing: Sendable {
    private struct State {
        var tracer: (any Tracer)?
        /// The open spans of bulk calls, whose consumers may never read to the end.
        var open: [ObjectIdentifier: BulkSpan] = [:]
        var isFinished = false
    }

    private let isOn = Atomic<Bool>(false)
    private let state = Mutex(State())
    private let configured: (any Tracer)?
    private let logging: APNSClientConfiguration.Logging
    private let environment: APNSEnvironment

    init(_ configuration: APNSClientConfiguration) {
        self.configured = configuration.tracer
        self.logging = configuration.logging
        self.environment = configuration.environment
        self.findTracer()
    }

    /// Uses the configuration's tracer, or else the one that `withTracer` sets around this task, or else the one of
    /// `InstrumentationSystem.bootstrap`.
    func findTracer() {
        let found = self.configured ?? InstrumentationSystem.tracer
        if found is NoOpTracer { return }
        self.state.withLock { $0.tracer = found }
        self.isOn.store(true, ordering: .relaxed)
    }

    /// The tracer; nil if tracing is off.
    private var tracer: (any Tracer)? {
        guard self.isOn.load(ordering: .relaxed) else { return nil }
        return self.state.withLock { $0.tracer }
    }

    // MARK: Starting spans

    /// The span of a single push, a child of the task's span; nil if tracing is off.
    func push(_ push: PreparedPush, to token: DeviceToken, id: APNSID) -> CallSpan? {
        guard let span = self.begin("send", push.topic, kind: "send") else { return nil }
        span.update { attributes in
            attributes["messaging.message.id"] = id.description
            attributes["messaging.message.body.size"] = push.payload.count
            attributes["apns.push_type"] = push.pushType.rawValue
            attributes["apns.device_token"] = self.logging.text(of: token)
        }
        return span
    }

    /// Begins and ends the span of a push that could not be prepared.
    func refused(_ error: PushError, topic: String, to token: DeviceToken) {
        guard let span = self.begin("send", topic, kind: "send") else { return }
        span.update { attributes in
            attributes["messaging.message.id"] = error.apnsID?.description
            attributes["apns.device_token"] = self.logging.text(of: token)
        }
        span.end(.failed(error))
    }

    func broadcast(_ push: PreparedPush, to channel: ChannelID, id: APNSID) -> CallSpan? {
        guard let span = self.begin("broadcast", push.bundleID, kind: "send") else { return nil }
        span.update { attributes in
            attributes["messaging.message.id"] = id.description
            attributes["messaging.message.body.size"] = push.payload.count
            attributes["apns.push_type"] = push.pushType.rawValue
            attributes["apns.channel_id"] = channel.rawValue
        }
        return span
    }

    func channels(_ operation: ChannelOperation, bundleID: String, id: APNSID) -> CallSpan? {
        guard let span = self.begin(operation.spanName, bundleID, kind: nil, isManagement: true) else { return nil }
        span.update { attributes in
            attributes["apns.request_id"] = id.description
            attributes["apns.channel_id"] = operation.channel?.rawValue
        }
        return span
    }

    func bulk() -> BulkSpan? {
        guard let tracer = self.tracer else { return nil }
        let span = BulkSpan(
            tracer.startSpan("send_bulk", ofKind: .client),
            common: self.attributes("send_bulk", kind: "send", isManagement: false)
        ) { [weak self] span in
            self?.forget(span)
        }
        let isLate = self.state.withLock { state in
            if !state.isFinished { state.open[ObjectIdentifier(span)] = span }
            return state.isFinished
        }
        if isLate { span.end(.clientStopped) }
        return span
    }

    /// - Parameter destination: evaluated only if tracing is on.
    private func begin(
        _ name: String,
        _ destination: @autoclosure () -> String,
        kind: String?,
        isManagement: Bool = false
    ) -> CallSpan? {
        guard let tracer = self.tracer else { return nil }
        let destination = destination()
        // Client, not producer: the push carries no context to the device.
        let span = tracer.startSpan("\(name) \(destination)", ofKind: .client)
        var attributes = self.attributes(name, kind: kind, isManagement: isManagement)
        attributes["messaging.destination.name"] = destination
        return CallSpan(span, attributes)
    }

    private func attributes(_ name: String, kind: String?, isManagement: Bool) -> SpanAttributes {
        let environment = self.environment
        var attributes = SpanAttributes([:])
        attributes["messaging.system"] = "apns"
        attributes["messaging.operation.name"] = name
        attributes["messaging.operation.type"] = kind
        attributes["server.address"] = isManagement ? environment.managementHost : environment.host
        attributes["server.port"] = isManagement ? environment.managementPort : environment.port
        attributes["apns.environment"] = environment.name
        return attributes
    }

    // MARK: Ending spans

    private func forget(_ span: BulkSpan) {
        self.state.withLock { $0.open[ObjectIdentifier(span)] = nil }
    }

    /// Call this when the client has ended. Ends the spans of bulk calls whose consumers read no further.
    func finish() {
        let open = self.state.withLock { state in
            state.isFinished = true
            return Array(state.open.values)
        }
        for span in open { span.end(.clientStopped) }
    }
}

extension ChannelOperation {
    fileprivate var spanName: String {
        switch self {
        case .create: "create_channel"
        case .read: "read_channel"
        case .delete: "delete_channel"
        case .list: "list_channels"
        }
    }

    fileprivate var channel: ChannelID? {
        switch self {
        case .read(let channel), .delete(let channel): channel
        case .create, .list: nil
        }
    }
}
