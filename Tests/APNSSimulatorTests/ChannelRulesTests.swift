import APNSModel
import Testing

@testable import APNSSimulator

/// The simulator's checks of broadcasts and channel calls.
struct ChannelRulesTests {
    private static let stored = "c3RvcmVkLWNoYW5uZWw="
    private static let unstored = "dW5zdG9yZWQtY2hhbm4="
    private static let gone = "Z29uZQ=="

    private let store: ChannelStore
    private let broadcast = TestRequest(
        path: "/4/broadcasts/apps/com.example.app",
        fields: [
            ("apns-channel-id", ChannelRulesTests.stored), ("apns-push-type", "liveactivity"), ("apns-priority", "10"),
            ("apns-expiration", "0"),
        ],
        body: #"{"aps":{"event":"update"}}"#
    )
    private let create = TestRequest(
        path: "/1/apps/com.example.app/channels",
        fields: [],
        body: #"{"message-storage-policy":1,"push-type":"LiveActivity"}"#
    )

    init() {
        var store = ChannelStore()
        store.add(Self.stored, to: "com.example.app", storage: .mostRecentMessage)
        store.add(Self.unstored, to: "com.example.app", storage: .noMessage)
        store.add(Self.gone, to: "com.example.app", storage: .noMessage)
        store.remove(Self.gone, from: "com.example.app")
        store.apps["com.example.off"] = ChannelStore.App(isEnabled: false)
        self.store = store
    }

    private func plan(
        _ request: TestRequest,
        _ store: ChannelStore? = nil,
        fault: RejectionReason? = nil,
        now: ContinuousClock.Instant = .now
    ) -> ChannelStore.Plan? {
        RequestView.with(request.fieldList) { view in
            ChannelRequest(view).map {
                (store ?? self.store).plan($0, view, body: Array(request.body.utf8), credentialFault: fault, now: now)
            }
        }
    }

    private func verdict(_ request: TestRequest, _ store: ChannelStore? = nil) -> Verdict? {
        self.plan(request, store)?.verdict
    }

    private func expect(_ reason: RejectionReason, _ status: Int, _ request: TestRequest) {
        #expect(self.verdict(request) == Verdict(status: status, reason: reason), "\(request)")
    }

    private func request(_ method: String, _ path: String, channel: String? = nil) -> TestRequest {
        TestRequest(method: method, path: path, fields: channel.map { [("apns-channel-id", $0)] } ?? [], body: "")
    }

    @Test(arguments: [
        "/3/device/00", "/3/device/1/apps/a/channels", "/1/apps//channels", "/1/apps/a/channel", "/1/apps/a/channels/x",
        "/4/broadcasts/apps", "/4/broadcasts/apps/", "/4/broadcasts/apps/a/b", "/2/apps/a/channels", "/", "",
    ])
    func otherPathsAreNotChannelRequests(path: String) {
        #expect(self.plan(TestRequest(path: path)) == nil)
    }

    @Test func aGoodBroadcastIsAccepted() {
        #expect(self.verdict(self.broadcast) == .accepted)
        #expect(self.verdict(self.broadcast.with("apns-push-type", "LiveActivity")) == .accepted)
        #expect(self.verdict(self.broadcast.with("apns-expiration", "4000000000")) == .accepted)
        #expect(self.verdict(self.broadcast.with("apns-channel-id", Self.unstored)) == .accepted)
        #expect(self.verdict(self.broadcast.with("apns-priority", "1")) == .accepted)
        #expect(
            self.verdict(self.broadcast.with("apns-request-id", "EABEAE54-14A8-11E5-B60B-1697F925EC7B")) == .accepted
        )
        #expect(self.plan(self.broadcast)?.effect == .broadcast)
    }

    @Test func aBadBroadcastGetsItsReason() {
        self.expect(.missingChannelID, 400, self.broadcast.without("apns-channel-id"))
        self.expect(.badChannelID, 400, self.broadcast.with("apns-channel-id", "AAAA"))
        self.expect(.channelNotRegistered, 400, self.broadcast.with("apns-channel-id", Self.gone))
        self.expect(.missingPushType, 400, self.broadcast.without("apns-push-type"))
        self.expect(.invalidPushType, 400, self.broadcast.with("apns-push-type", "alert"))
        self.expect(.badPriority, 400, self.broadcast.without("apns-priority"))
        self.expect(.badPriority, 400, self.broadcast.with("apns-priority", "7"))
        self.expect(.badExpirationDate, 400, self.broadcast.without("apns-expiration"))
        self.expect(.badExpirationDate, 400, self.broadcast.with("apns-expiration", "-1"))
        let unstored = self.broadcast.with("apns-channel-id", Self.unstored)
        self.expect(.badExpirationDate, 400, unstored.with("apns-expiration", "4000000000"))
        self.expect(.badMessageID, 400, self.broadcast.with("apns-request-id", "7"))
        for (body, reason, status) in [
            ("", RejectionReason.payloadEmpty, 400), ("no", .badRequestPayload, 400), ("[]", .badRequestPayload, 400),
            (#"{"aps":{"event":"start"}}"#, .badRequestPayload, 400),
            (#"{"x":""# + String(repeating: "x", count: 5113) + #""}"#, .payloadTooLarge, 413),
        ] {
            var request = self.broadcast
            request.body = body
            self.expect(reason, status, request)
        }
        var large = self.broadcast
        large.body = #"{"x":""# + String(repeating: "x", count: 5112) + #""}"#
        #expect(self.verdict(large) == .accepted)
    }

    @Test func checksRunInOrder() {
        let wrongMethod = self.request("PUT", "/1/apps/com.example.app/channels")
        #expect(self.plan(wrongMethod, fault: .expiredProviderToken)?.verdict.reason == .methodNotAllowed)
        self.expect(.methodNotAllowed, 405, self.request("GET", "/4/broadcasts/apps/com.example.app"))
        self.expect(.methodNotAllowed, 405, self.request("POST", "/1/apps/com.example.app/all-channels"))
        let unknown = self.request("GET", "/1/apps/com.example.other/all-channels")
        var store = self.store
        store.topics = ["com.example.app"]
        #expect(self.plan(unknown, store, fault: .missingProviderToken)?.verdict.status == 403)
        #expect(self.verdict(unknown, store) == .rejected(.topicDisallowed))
        #expect(self.verdict(unknown) == .accepted)
        self.expect(
            .topicDisallowed,
            400,
            self.request("GET", "/1/apps/com.example.app.push-type.liveactivity/all-channels")
        )
        self.expect(.broadcastFeatureNotEnabled, 400, self.request("GET", "/1/apps/com.example.off/all-channels"))
        var twice = self.broadcast
        twice.fields.append(("apns-channel-id", Self.stored))
        self.expect(.duplicateHeaders, 400, twice)
    }

    @Test func aChannelNeedsAValidBody() {
        #expect(self.plan(self.create)?.effect == .create(storage: .mostRecentMessage))
        #expect(self.verdict(self.create) == Verdict(status: 201))
        for (body, reason) in [
            ("", RejectionReason.payloadEmpty), ("[", .badRequestPayload), ("{}", .missingChannelQueueSize),
            (#"{"message-storage-policy":2,"push-type":"LiveActivity"}"#, .missingChannelQueueSize),
            (#"{"message-storage-policy":0}"#, .missingPushType),
            (#"{"message-storage-policy":0,"push-type":"alert"}"#, .invalidPushType),
        ] {
            var request = self.create
            request.body = body
            self.expect(reason, 400, request)
            #expect(self.plan(request)?.effect == ChannelStore.Plan.Effect.nothing)
        }
        var full = self.store
        full.maximum = 2
        #expect(self.verdict(self.create, full) == .rejected(.cannotCreateChannelConfig))
    }

    @Test func channelsAreReadListedAndDeleted() {
        let path = "/1/apps/com.example.app/channels"
        let read = self.plan(self.request("GET", path, channel: Self.stored))
        #expect(read?.verdict == .accepted)
        #expect(
            read.map { String(decoding: $0.body, as: UTF8.self) }
                == #"{"message-storage-policy":1,"push-type":"LiveActivity"}"#
        )
        self.expect(.missingChannelID, 400, self.request("GET", path))
        self.expect(.badChannelID, 400, self.request("GET", path, channel: "AAAA"))
        self.expect(.missingChannelID, 400, self.request("DELETE", path))
        // 404, as observed on the wire.
        self.expect(.badPath, 404, self.request("DELETE", path, channel: "AAAA"))
        self.expect(.badPath, 404, self.request("DELETE", path, channel: Self.gone))
        let delete = self.plan(self.request("DELETE", path, channel: Self.stored))
        #expect(delete?.verdict == Verdict(status: 204))
        let list = self.plan(self.request("GET", "/1/apps/com.example.app/all-channels"))
        #expect(
            list.map { String(decoding: $0.body, as: UTF8.self) }
                == #"{"channels":["\#(Self.stored)","\#(Self.unstored)"]}"#
        )
        var store = self.store
        if let delete { _ = store.carryOut(delete, newID: { "" }, now: .now) }
        #expect(store.apps["com.example.app"]?.order == [Self.unstored])
        #expect(self.verdict(self.broadcast, store) == .rejected(.channelNotRegistered))
    }

    @Test func broadcastsInQuickSuccessionAreRefused() {
        var store = self.store
        store.spacing = .seconds(1)
        let start = ContinuousClock.now
        guard let plan = self.plan(self.broadcast, store, now: start) else {
            Issue.record("the broadcast has no plan")
            return
        }
        #expect(plan.verdict == .accepted)
        _ = store.carryOut(plan, newID: { "" }, now: start)
        let soon = self.plan(self.broadcast, store, now: start + .milliseconds(999))
        #expect(soon?.verdict == .rejected(.tooManyRequests))
        #expect(self.plan(self.broadcast, store, now: start + .seconds(1))?.verdict == .accepted)
        let other = self.broadcast.with("apns-channel-id", Self.unstored)
        #expect(self.plan(other, store, now: start)?.verdict == .accepted)
    }
}
