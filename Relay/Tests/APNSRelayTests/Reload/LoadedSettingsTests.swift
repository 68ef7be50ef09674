@_spi(Relay) import APNSPool
import Testing

@testable import APNSRelay

struct LoadedSettingsTests {
    private static let small = [
        "apps": "fern", "app.fern.topic": "com.grasscove.Fern", "server.production": "localhost:2197",
        "server.development": "localhost:2198", "callers": "shop", "caller.shop.token": "0123456789abcdef",
    ]

    private func load(_ values: [String: String?]) throws -> LoadedSettings {
        var all = Self.small
        for (key, value) in values { all[key] = value }
        return try LoadedSettings([.values(all)])
    }

    /// The settings that a running relay cannot change, each with what a test changes it to.
    private static let values: [String: String] = {
        let texts = [
            "http.host": "0.0.0.0", "http.probeHost": "0.0.0.0", "storage.afterFailover": "send",
            "storage.postgres": "host=localhost", "storage.migrate": "false",
            "group.isolation": "perApp", "log.level": "debug", "log.format": "json", "storage.file": "other.sqlite",
            "http.maxBodyBytes": "4096", "http.maxBufferedBytes": "500000000", "dispatch.maxDeadline": "9d",
            "client.pool.size": "3", "client.timeouts.deadline": "9s",
            "client.retry.retriesInternalServerError": "false",
        ]
        var values: [String: String] = [:]
        let changeable: Set = [
            "apps", "callers", "webhooks", "server.production", "server.development", "http.certificateChainFile",
            "http.privateKeyFile", "http.clientAuthoritiesFile",
        ]
        // Those for Web Push need each other.
        for row in RelaySettingsTable.rows where !changeable.contains(row.key) && !row.key.hasPrefix("webPush.") {
            // Within the limits of all numbers and times, and the default of none.
            values[row.key] = texts[row.key] ?? "77"
        }
        for (key, value) in texts where key.hasPrefix("client.") { values[key] = value }
        return values
    }()

    @Test("A setting that only counts at the start is named, and everything else may change", arguments: Self.values)
    func fixed(key: String, value: String) throws {
        let old = try self.load([:])
        let new = try self.load([key: value])
        let error = #expect(throws: RelaySettingsError.self) { try new.requireChange(from: old) }
        let message = "\(key) (values): it cannot change while the relay runs: restart the relay, or undo the change"
        #expect(error?.description == message)
        try new.requireChange(from: new)
    }

    @Test("Apps, callers, webhooks and servers may change")
    func changeable() throws {
        let old = try self.load([:])
        let new = try self.load([
            "apps": "moss", "app.fern.topic": nil, "app.moss.topic": "com.grasscove.Moss", "callers": "crm, shop",
            "caller.crm.token": "fedcba9876543210", "webhooks": "crm", "webhook.crm.url": "https://crm.example.com/",
            "webhook.crm.secret": "0123456789abcdef01234567", "server.production": "localhost:2199",
        ])
        try new.requireChange(from: old)
        try old.requireChange(from: new)
    }

    @Test("The settings for Web Push only count at the start")
    func webPush() throws {
        let key = "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc="
        let some = ["webPush.origins": "https://push.example.com", "webPush.key": key]
        let old = try self.load(some)
        for (key, value) in [
            ("webPush.origins", "https://other.example.com"), ("webPush.requireVAPID", "false"),
            ("webPush.pushesPerMinute", "77"), ("webPush.oldKey", "CAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg="),
        ] {
            let new = try self.load(some.merging([key: value]) { $1 })
            let error = #expect(throws: RelaySettingsError.self) { try new.requireChange(from: old) }
            #expect(error?.description.hasPrefix("\(key) (values): it cannot change") == true)
        }
        for values in [
            ["webPush.origins": "https://push.example.com"], ["webPush.key": key],
            some.merging(["webPush.key": "short"]) { $1 }, some.merging(["webPush.origins": "push.example.com"]) { $1 },
            some.merging(["webPush.origins": "https://push.example.com/path"]) { $1 },
        ] {
            let error = #expect(throws: RelaySettingsError.self) { try self.load(values) }
            #expect(error?.description.contains("webPush.") == true)
        }
    }

    @Test("A setting that is written with its default is no change")
    func defaults() throws {
        let old = try self.load([:])
        let new = try self.load(["http.port": "8027", "dispatch.batch": "500", "group.isolation": "perKey"])
        try new.requireChange(from: old)
        try old.requireChange(from: new)
    }

    @Test("TLS cannot be turned on or off")
    func tls() throws {
        let old = try self.load([:])
        let new = try self.load(["http.certificateChainFile": "/a.pem", "http.privateKeyFile": "/b.pem"])
        for (one, other, change) in [(old, new, "off"), (new, old, "on")] {
            let error = #expect(throws: RelaySettingsError.self) { try one.requireChange(from: other) }
            #expect(error?.description.hasSuffix("restart the relay to turn TLS \(change)") == true)
        }
    }

    @Test("The files of tokens, secrets and certificates are watched")
    func files() throws {
        let old = try self.load(["http.certificateChainFile": "/a.pem", "http.privateKeyFile": "/b.pem"])
        #expect(old.files.keys.sorted() == ["/a.pem", "/b.pem"])
    }
}
