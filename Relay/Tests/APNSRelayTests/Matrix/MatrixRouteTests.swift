import APNSModel
import Foundation
import Logging
import NIOHTTP1
import PushQueue
import PushQueueConformance
import RelayTestSupport
import Synchronization
import Testing
import WebPush

@testable import APNSRelay

/// The push gateway for Matrix over HTTP, with a queue and without a dispatcher.
struct MatrixRouteTests {
    private static let path = "/_matrix/push/v1/notify"
    private static let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    private static func settings(_ change: (inout RelaySettings) -> Void = { _ in }) -> RelaySettings {
        RelayServer.settings { settings in
            settings.apps[0].matrixAppIDs = ["im.fern.ios": "production", "im.fern.ios.dev": "development"]
            change(&settings)
        }
    }

    /// The pushkey of a device: a token of 32 equal bytes in base64.
    private static func pushkey(_ byte: UInt8) -> String { Data(repeating: byte, count: 32).base64EncodedString() }

    private static func device(_ byte: UInt8, app: String = "im.fern.ios", _ more: String = "") -> String {
        #"{"app_id":"\#(app)","pushkey":"\#(Self.pushkey(byte))"\#(more)}"#
    }

    private static func request(
        _ devices: [String],
        event: String? = "$event",
        _ more: String = #""counts":{"unread":1}"#
    ) -> String {
        let id = event.map { #""event_id":"\#($0)","room_id":"!room","# } ?? ""
        return #"{"notification":{\#(id)\#(more),"devices":[\#(devices.joined(separator: ","))]}}"#
    }

    private static func notify(_ server: RelayServer, _ body: String) async throws -> TestHTTPClient.Response {
        try await server.send(.POST, Self.path, token: nil, body: body)
    }

    private static func pushes(_ server: RelayServer) -> [NewPush] { server.queue.state.withLock { $0.pushes } }

    @Test("The specification's example is stored for its device")
    func example() async throws {
        let settings = Self.settings { $0.apps[0].matrixAppIDs = ["org.matrix.matrixConsole.ios": "production"] }
        try await RelayServer.run(settings) { server in
            let received = try await Self.notify(
                server,
                ##"""
                {"notification":{"event_id":"$3957tyerfgewrf384","room_id":"!slw48wfj34rtnrf:example.com",
                "type":"m.room.message","sender":"@exampleuser:matrix.org","sender_display_name":"Major Tom",
                "room_name":"Mission Control","room_alias":"#exampleroom:matrix.org","prio":"high",
                "content":{"msgtype":"m.text","body":"I'm floating in a most peculiar way."},
                "counts":{"unread":2,"missed_calls":1},"devices":[{"app_id":"org.matrix.matrixConsole.ios",
                "pushkey":"V2h5IG9uIGVhcnRoIGRpZCB5b3UgZGVjb2RlIHRoaXM/","pushkey_ts":12345678,"data":{},
                "tweaks":{"sound":"bing"}}]}}
                """##
            )
            #expect(received.status == 200 && received.text == #"{"rejected":[]}"#, "\(received.text)")
            let push = try #require(Self.pushes(server).first)
            #expect(
                push.route == Route(app: "fern", environment: "production", lane: .interactive, caller: "matrix-push")
            )
            #expect(push.push.topic == "com.example.fern" && push.deadline > server.clock.now)
            #expect(TokenBytes.bytes(of: push.token) == Array("Why on earth did you decode this?".utf8))
            #expect(String(decoding: push.push.payload, as: UTF8.self).contains(#""badge":3,"sound":"bing""#))
            #expect(server.status.state.withLock { $0.signals } > 0)
        }
    }

    @Test("A request is stored once for each event and device, also with other counts")
    func repeated() async throws {
        try await RelayServer.run(Self.settings()) { server in
            for counts in [1, 2] {
                let body = Self.request([Self.device(1), Self.device(1)], #""counts":{"unread":\#(counts)}"#)
                #expect(try await Self.notify(server, body).status == 200)
            }
            #expect(Self.pushes(server).count == 1)
            #expect(try await Self.notify(server, Self.request([Self.device(1)], event: "$other")).status == 200)
            #expect(try await Self.notify(server, Self.request([Self.device(2)])).status == 200)
            #expect(try await Self.notify(server, Self.request([Self.device(1, app: "im.fern.ios.dev")])).status == 200)
            #expect(
                Self.pushes(server).map(\.route.environment) == [
                    "production", "production", "production", "development",
                ]
            )
            // Newer counts replace older ones.
            for counts in [3, 4] {
                let body = Self.request([Self.device(1)], event: nil, #""counts":{"unread":\#(counts)}"#)
                #expect(try await Self.notify(server, body).status == 200)
            }
            let queued = try await server.queue.counts()
            #expect(queued.unsettled == 5)
        }
    }

    @Test(
        "A request whose pushes could not be stored stores all of them when it is repeated, and only the missing ones"
    )
    func repetition() async throws {
        try await RelayServer.run(Self.settings()) { server in
            let body = Self.request([Self.device(1), Self.device(2)])
            let queue = server.queue
            let fail: @Sendable () -> Void = {
                queue.state.withLock { $0.error = QueueError(code: .unavailable, message: "away") }
            }
            // Before anything is read, and when the pushes are stored.
            for isLate in [false, true] {
                if isLate { queue.state.withLock { $0.beforeEnqueue = { fail() } } } else { fail() }
                let refused = try await Self.notify(server, body)
                #expect(refused.status == 503 && refused.headers.first(name: "retry-after") != nil)
                queue.state.withLock { ($0.error, $0.beforeEnqueue) = (nil, nil) }
            }
            #expect(try await server.queue.counts().unsettled == 0)
            #expect(try await Self.notify(server, Self.request([Self.device(1)])).status == 200)
            for _ in 0..<2 { #expect(try await Self.notify(server, body).status == 200) }
            #expect(try await server.queue.counts().unsettled == 2)
        }
    }

    @Test("A device over its quota gets 429, and the others of the request get theirs once")
    func quotas() async throws {
        let settings = Self.settings { $0.matrix.pushesPerMinute = 2 }
        try await RelayServer.run(settings) { server in
            for event in 0..<2 {
                #expect(try await Self.notify(server, Self.request([Self.device(1)], event: "$\(event)")).status == 200)
            }
            let body = Self.request([Self.device(1), Self.device(2)], event: "$new")
            let limited = try await Self.notify(server, body)
            #expect(limited.status == 429 && limited.headers.first(name: "retry-after") != nil, "\(limited.text)")
            #expect(try await server.queue.counts().unsettled == 3)
            server.clock.advance(by: .seconds(60))
            #expect(try await Self.notify(server, body).status == 200)
            #expect(try await server.queue.counts().unsettled == 4)
        }
        let source = Self.settings { $0.matrix.sourcePushesPerMinute = 3 }
        try await RelayServer.run(source) { server async throws in
            let body = Self.request([1, 2, 3, 4].map { Self.device($0) })
            #expect(try await Self.notify(server, body).status == 429)
            #expect(try await server.queue.counts().unsettled == 3)
        }
    }

    @Test("Only a device token that APNs has declared invalid is rejected, until its homeserver gets it again")
    func deadTokens() async throws {
        try await RelayServer.run(Self.settings()) { server in
            let live = LiveSettings(Self.settings())
            var keeper = DeadPushkeyKeeper(
                live: live,
                queue: server.queue,
                keys: nil,
                clock: server.clock,
                logger: Self.logger
            )
            #expect(try await Self.notify(server, Self.request([Self.device(1), Self.device(2)])).status == 200)
            let pushes = Self.pushes(server)
            let since = server.clock.now
            let outcomes: [Rejection] = [
                Rejection(status: 410, reason: .unregistered, timestamp: since.millisecondsSince1970),
                // The wrong environment, for example: no reason to forget a device.
                Rejection(status: 400, reason: .badDeviceToken),
            ]
            for (push, rejection) in zip(pushes, outcomes) {
                try await server.queue.settle(push.id, .rejected(.rejected(rejection, attempts: 1)))
            }
            try await keeper.tend()
            // The database has no token.
            let values = try await server.queue.values(withPrefix: "matrix/")
            #expect(values.count == 2)
            for (key, value) in values {
                let text = key + String(decoding: value, as: UTF8.self)
                #expect(!text.contains(String(repeating: "01", count: 32)) && !text.contains(Self.pushkey(1)))
            }
            let seconds = since.millisecondsSince1970 / 1_000
            func rejected(_ devices: [String], event: String) async throws -> [String]? {
                let received = try await Self.notify(server, Self.request(devices, event: event))
                #expect(received.status == 200)
                return received.json["rejected"] as? [String]
            }
            let old = Self.device(1, #","pushkey_ts":\#(seconds)"#)
            let devices = [old, Self.device(2), Self.device(3), Self.device(1, app: "im.fern.ios.dev")]
            // Another homeserver may have the token, too.
            for _ in 0..<2 { #expect(try await rejected(devices, event: "$2") == [Self.pushkey(1)]) }
            // The other devices got the event.
            #expect(Self.pushes(server).count == 5)
            let again = Self.device(1, #","pushkey_ts":\#(seconds + 1)"#)
            #expect(try await rejected([again], event: "$4") == [])
            #expect(try await rejected([old], event: "$5") == [])
            // From the stored position on, nothing is remembered twice.
            try await keeper.tend()
            #expect(try await rejected([old], event: "$6") == [])
        }
    }

    @Test("A dead token is forgotten after 30 days")
    func forgotten() async throws {
        try await RelayServer.run(Self.settings()) { server in
            let dead = DeadPushkeys(queue: server.queue)
            let tokens = try (0..<3).map { try DeviceToken(String(repeating: "0\($0)", count: 32)) }
            let start = server.clock.now
            func key(_ index: Int) -> String { DeadPushkeys.key(tokens[index], "fern", "production") }
            for index in tokens.indices {
                let now = start.advanced(by: .seconds(index * 86_400))
                try await dead.add(DeadPushkeys.Entry(since: 1, refused: now, stored: now), for: key(index))
            }
            try await dead.prune(now: start.advanced(by: .seconds(30 * 86_400)))
            #expect(try await server.queue.values(withPrefix: DeadPushkeys.prefix).count == 3)
            try await dead.prune(now: start.advanced(by: .seconds(31 * 86_400)))
            #expect(try await server.queue.values(withPrefix: DeadPushkeys.prefix).count == 2)
            #expect(try await dead.entry(key(0)) == nil)
            #expect(try await dead.entry(key(1))?.isInvalid(pushkeyTime: 0) == true)
        }
    }

    @Test("A homeserver that does not say when it got a token is told once, and again after another refusal")
    func toldOnce() async throws {
        try await RelayServer.run(Self.settings()) { server in
            let dead = DeadPushkeys(queue: server.queue)
            let key = DeadPushkeys.key(try DeviceToken(String(repeating: "01", count: 32)), "fern", "production")
            let first = server.clock.now
            func refused(at time: QueueTime) async throws {
                let entry = DeadPushkeys.Entry(since: 1_000, refused: time, stored: server.clock.now)
                try await dead.add(entry, for: key)
            }
            func rejected(_ event: String) async throws -> [String]? {
                let received = try await Self.notify(server, Self.request([Self.device(1)], event: event))
                return received.json["rejected"] as? [String]
            }
            try await refused(at: first)
            server.clock.advance(by: .seconds(5))
            // Nothing is stored, so the homeserver repeats the request, and has not been told yet.
            server.queue.state.withLock { $0.enqueueError = QueueError(code: .full, message: "full") }
            let devices = [Self.device(1), Self.device(2)]
            #expect(try await Self.notify(server, Self.request(devices, event: "$1")).status != 200)
            server.queue.state.withLock { $0.enqueueError = nil }
            #expect(try await rejected("$1") == [Self.pushkey(1)])
            #expect(try await rejected("$2") == [])
            // Another relay has read the same refusal later.
            try await refused(at: first)
            #expect(try await rejected("$3") == [])
            try await refused(at: server.clock.now.advanced(by: .seconds(1)))
            #expect(try await rejected("$4") == [Self.pushkey(1)])
        }
    }

    @Test(
        "An unknown app, an unusable pushkey and a payload that is too large reject nothing, and stop no other device"
    )
    func faults() async throws {
        try await RelayServer.run(Self.settings()) { server in
            let large = #","data":{"default_payload":{"x":"\#(String(repeating: "x", count: 5_000))"}}"#
            let devices = [
                Self.device(1, app: "im.unknown"), #"{"app_id":"im.fern.ios","pushkey":"fcm:token"}"#,
                Self.device(2, large), Self.device(3),
            ]
            let received = try await Self.notify(server, Self.request(devices))
            #expect(received.status == 200 && received.text == #"{"rejected":[]}"#, "\(received.text)")
            #expect(Self.pushes(server).map { TokenBytes.bytes(of: $0.token)[0] } == [3])
            #expect(try await Self.notify(server, Self.request([])).text == #"{"rejected":[]}"#)
            #expect(try await Self.notify(server, "{").status == 400)
            let text = HTTPHeaders([("content-type", "text/plain")])
            #expect(try await server.send(.POST, Self.path, token: nil, headers: text, body: "{}").status == 415)
            let huge = String(repeating: " ", count: MatrixRoutes.maxBodyBytes) + Self.request([])
            #expect(try await Self.notify(server, huge).status == 413)
        }
    }

    @Test("The capacity of the app holds for Matrix, too, and a request is stored whole or not at all")
    func capacity() async throws {
        let settings = Self.settings { $0.apps[0].capacity = 2 }
        try await RelayServer.run(settings) { server in
            let received = try await Self.notify(
                server,
                Self.request([Self.device(1), Self.device(2), Self.device(3)])
            )
            #expect(received.status == 429, "\(received.text)")
            #expect(try await server.queue.counts().unsettled == 0)
            #expect(try await Self.notify(server, Self.request([Self.device(1), Self.device(2)])).status == 200)
        }
    }

    @Test("The gateway says what it is, and does not exist without an app id")
    func discovery() async throws {
        try await RelayServer.run(Self.settings()) { server in
            let received = try await server.send(.GET, Self.path, token: nil)
            #expect(received.status == 200 && received.text == #"{"unifiedpush":{"gateway":"matrix"}}"#)
        }
        try await RelayServer.run { server async throws in
            #expect(try await server.send(.GET, Self.path, token: nil).status == 404)
            #expect(try await Self.notify(server, Self.request([Self.device(1)])).status == 404)
        }
    }
}
