import APNSModel
import APNSTransport
import NIOCore
import NIOPosix
import Synchronization

/// A push as received by the server.
struct ServerPush: Sendable {
    /// 1 for the server's first connection.
    var connection: Int
    /// 1 for the server's first push.
    var number: Int
    /// 1 for the first push of its connection.
    var numberOnConnection: Int
    var streamID: Int32
    var fields: [(name: String, value: String)]
    var body: [UInt8]

    func field(_ name: String) -> String? { self.fields.first { $0.name == name }?.value }
    var id: String { self.field("apns-id") ?? "" }
    /// The device token.
    var token: String { String((self.field(":path") ?? "").dropFirst("/3/device/".count)) }
    var deviceToken: DeviceToken? { try? DeviceToken(self.token) }
}

/// An action of the server for a push. A script returns a list of them, performed in order.
enum ServerStep: Sendable {
    case respond(Int, reason: String? = nil, fields: [(String, String)] = [])
    case responseBytes(Int, [UInt8])
    case reset(HTTP2ErrorCode)
    /// No response until `release()`.
    case hold
    /// The last processed stream is this push's, or the one before it.
    case goAway(includingThis: Bool, HTTP2ErrorCode = .noError, debugData: String = "")
    /// Closes the connection without `close_notify`.
    case drop
    /// Closes it with `close_notify`.
    case close
    case limit(UInt32)
    /// Sends the frames so far before the following ones. Without it, RST_STREAM would be sent first.
    case flush
    /// Sends these bytes after the frames so far. The server's own session does not know about them.
    case bytes([UInt8])
}

/// A server based on `APNSTransport` whose behaviour for each push is a closure, with a record of the processed pushes.
final class ScriptedServer: Sendable {
    typealias Script = @Sendable (ServerPush) -> [ServerStep]

    /// The server's record.
    struct Record: Sendable {
        var pushes: [ServerPush] = []
        /// How often a push may have been delivered, by `apns-id`. Refused pushes are not counted.
        var processed: [String: Int] = [:]
        var accepted: Set<String> = []
        var held = 0
        var connections = 0
        var openConnections = 0
        var openStreams = 0
        var mostOpenStreams = 0
        /// Streams that the client reset.
        var cancelled = 0

        func count(_ id: String) -> Int { self.processed[id] ?? 0 }
    }

    private struct State {
        var record = Record()
        var sessions: [Int: NIOLoopBound<ScriptedSession>] = [:]
        var script: Script
    }

    let listener: Listener
    let port: Int
    let caPEM: String
    private let state: Mutex<State>
    private let box: Box

    /// The listener's closure needs the server before there is one.
    private final class Box: Sendable {
        let server = Mutex<ScriptedServer?>(nil)
    }

    /// - Parameters:
    ///   - limit: MAX_CONCURRENT_STREAMS.
    ///   - early: Whether pushes get their response once their headers have arrived.
    ///   - names: The names in the certificate.
    ///   - port: The port; 0 for any free one.
    ///   - authority: The issuer of the certificate; nil for a new one.
    static func start(
        limit: UInt32 = 1000,
        early: Bool = false,
        names: [String] = ["localhost", "127.0.0.1"],
        port: Int = 0,
        authority: CertificateAuthority? = nil,
        script: @escaping Script = { _ in [.respond(200)] }
    ) async throws -> ScriptedServer {
        let authority = try authority ?? CertificateAuthority()
        let identity = try authority.issue(names: names)
        var tls = TLSConfiguration()
        tls.certificateChainPEM = identity.certificateChainPEM
        tls.privateKeyPEM = identity.privateKeyPEM
        let box = Box()
        let listener = try await Listener.bind(
            host: "127.0.0.1",
            port: port,
            tls: try TLSContext(.server, configuration: tls),
            group: MultiThreadedEventLoopGroup.singleton,
            configuration: {
                var configuration = HTTP2ServerSession.Configuration()
                configuration.maxConcurrentStreams = limit
                configuration.reportsRequestsEarly = early
                return configuration
            },
            accept: { ScriptedSession($0, server: box.server.withLock { $0 }) }
        )
        let server = ScriptedServer(listener, authority.certificatePEM, box, script)
        box.server.withLock { $0 = server }
        return server
    }

    private init(_ listener: Listener, _ caPEM: String, _ box: Box, _ script: @escaping Script) {
        self.listener = listener
        self.port = listener.port
        self.caPEM = caPEM
        self.box = box
        self.state = Mutex(State(script: script))
    }

    var record: Record { self.state.withLock { $0.record } }

    /// Uses another script from now on.
    func follow(_ script: @escaping Script) {
        self.state.withLock { $0.script = script }
    }

    /// Responds to the held pushes, of one device or all.
    func release(_ token: DeviceToken? = nil, status: Int = 200, reason: String? = nil) {
        self.each { $0.release(token, status, reason) }
    }
    func dropAll() { self.each { $0.connection.drop() } }
    func limitAll(_ limit: UInt32) {
        self.each {
            $0.connection.set(maxConcurrentStreams: limit)
            $0.connection.flush()
        }
    }
    /// Silences all connections: once it returns, they send nothing and discard everything that they receive.
    func muteAll() async {
        for session in self.state.withLock({ Array($0.sessions.values) }) {
            try? await session.eventLoop.submit { session.value.connection.silence(reads: true) }.get()
        }
    }
    /// Sends GOAWAY on all connections. The streams received so far are still processed.
    func goAwayAll() { self.each { $0.goAway() } }

    func stop() async {
        await self.listener.close()
        self.dropAll()
        self.box.server.withLock { $0 = nil }
    }

    /// Waits until the record meets the condition or the test is cancelled.
    func wait(_ isMet: (Record) -> Bool) async {
        await until { isMet(self.record) }
    }

    func note(_ change: (inout Record) -> Void) {
        self.state.withLock { change(&$0.record) }
    }

    private func each(_ body: @escaping @Sendable (ScriptedSession) -> Void) {
        for session in self.state.withLock({ Array($0.sessions.values) }) {
            session.eventLoop.execute { body(session.value) }
        }
    }

    // Called by sessions.

    func script(_ push: ServerPush) -> [ServerStep] { self.state.withLock { $0.script }(push) }

    func opened(_ session: ScriptedSession) -> Int {
        // The number is taken in the same step, since sessions open on several loops at once.
        var number = 0
        self.note {
            $0.connections += 1
            $0.openConnections += 1
            number = $0.connections
        }
        let bound = NIOLoopBound(session, eventLoop: session.connection.loop)
        self.state.withLock { $0.sessions[number] = bound }
        return number
    }

    func received(_ connection: Int, _ ordinal: Int, _ request: ServerRequest) -> ServerPush {
        var push = ServerPush(
            connection: connection,
            number: 0,
            numberOnConnection: ordinal,
            streamID: request.streamID,
            fields: request.fields.all,
            body: request.body
        )
        self.note { record in
            push.number = record.pushes.count + 1
            record.pushes.append(push)
            record.openStreams += 1
            record.mostOpenStreams = max(record.mostOpenStreams, record.openStreams)
        }
        return push
    }

    func closed(_ connection: Int) {
        self.state.withLock { $0.sessions[connection] = nil }
        self.note { $0.openConnections -= 1 }
    }
}

/// One connection of the scripted server. Confined to its loop.
final class ScriptedSession: ServerConnectionDelegate {
    let connection: ServerConnection
    private let server: ScriptedServer?
    private var number = 0
    private var pushes = 0
    private var last = Int32.max
    private var newest: Int32 = 0
    private var open: Set<Int32> = []
    private var held: [ServerPush] = []
    private var isGone = false

    init(_ connection: ServerConnection, server: ScriptedServer?) {
        self.connection = connection
        self.server = server
        self.number = server?.opened(self) ?? 0
    }

    func received(_ requests: [ServerRequest]) {
        guard let server else { return self.connection.drop() }
        for request in requests where !self.isGone && request.streamID <= self.last {
            self.pushes += 1
            self.newest = request.streamID
            let push = server.received(self.number, self.pushes, request)
            self.open.insert(push.streamID)
            self.perform(server.script(push), for: push, server)
        }
        if !self.isGone { self.connection.flush() }
    }

    private func perform(_ steps: [ServerStep], for push: ServerPush, _ server: ScriptedServer) {
        for step in steps {
            switch step {
            case .respond(let status, let reason, let fields):
                let body = reason.map { Array("{\"reason\":\"\($0)\"}".utf8) } ?? []
                self.reply(push, status, fields, body)
            case .responseBytes(let status, let body):
                self.reply(push, status, [], body)
            case .reset(let code):
                if code != .refusedStream { self.process(push) }
                self.connection.reset(streamID: push.streamID, code: code)
                self.end(push.streamID)
            case .hold:
                self.process(push)
                self.held.append(push)
                server.note { $0.held += 1 }
            case .goAway(let includingThis, let code, let debugData):
                self.last = includingThis ? push.streamID : max(0, push.streamID - 2)
                self.connection.goAway(lastStreamID: self.last, code: code, debugData: Array(debugData.utf8))
                if !includingThis { self.end(push.streamID) }
            case .drop:
                self.process(push)
                self.isGone = true
                self.connection.flush()
                self.connection.drop()
            case .close:
                self.process(push)
                self.isGone = true
                self.connection.flush()
                self.connection.close()
            case .limit(let limit):
                self.connection.set(maxConcurrentStreams: limit)
            case .flush:
                self.connection.flush()
            case .bytes(let bytes):
                self.process(push)
                self.connection.write(bytes)
            }
        }
    }

    private func process(_ push: ServerPush) {
        self.server?.note { $0.processed[push.id, default: 0] += 1 }
    }

    private func reply(_ push: ServerPush, _ status: Int, _ extra: [(String, String)], _ body: [UInt8]) {
        if status == 200 { self.process(push) }
        self.respond(push, status, extra, body)
    }

    private func respond(_ push: ServerPush, _ status: Int, _ extra: [(String, String)], _ body: [UInt8]) {
        var fields = FieldList()
        fields.append(name: "apns-id", value: push.id)
        for (name, value) in extra { fields.append(name: name, value: value) }
        if status == 200 { self.server?.note { _ = $0.accepted.insert(push.id) } }
        self.connection.respond(streamID: push.streamID, status: status, fields: fields, body: body)
        self.end(push.streamID)
    }

    private func end(_ streamID: Int32) {
        guard self.open.remove(streamID) != nil else { return }
        self.server?.note { $0.openStreams -= 1 }
    }

    func release(_ token: DeviceToken?, _ status: Int, _ reason: String?) {
        let held = self.held.filter { token == nil || $0.deviceToken == token }
        self.held.removeAll { token == nil || $0.deviceToken == token }
        self.server?.note { $0.held -= held.count }
        for push in held where self.open.contains(push.streamID) {
            self.respond(push, status, [], reason.map { Array("{\"reason\":\"\($0)\"}".utf8) } ?? [])
        }
        self.connection.flush()
    }

    func goAway() {
        self.last = self.newest
        self.connection.goAway(lastStreamID: self.newest, code: .noError, debugData: [])
        self.connection.flush()
    }

    func streamClosed(_ streamID: Int32, code: HTTP2ErrorCode) {
        if self.open.contains(streamID), code != .noError { self.server?.note { $0.cancelled += 1 } }
        self.held.removeAll { push in
            guard push.streamID == streamID else { return false }
            self.server?.note { $0.held -= 1 }
            return true
        }
        self.end(streamID)
    }

    func closed(_ error: WireError) {
        self.isGone = true
        let held = self.held.count
        self.held = []
        self.server?.note { $0.held -= held }
        for streamID in self.open { self.end(streamID) }
        self.server?.closed(self.number)
    }
}
