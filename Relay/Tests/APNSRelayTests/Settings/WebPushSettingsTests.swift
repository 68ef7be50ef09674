import APNSPool
import AppAttestTestDevice
import Crypto
import Foundation
import PushQueue
import Testing

@testable import APNSRelay
@testable import WebPushGateway

struct WebPushSettingsTests {
    private static let some = [
        "apps": "fern", "app.fern.topic": "com.grasscove.Fern", "server.production": "localhost:2197",
        "server.development": "localhost:2198", "webPush.origins": "https://push.example.com",
        "webPush.key": "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=",
    ]

    private static func read(_ more: [String: String]) throws(RelaySettingsError) -> RelaySettings {
        try RelaySettings([.values(Self.some.merging(more) { $1 })])
    }

    private static func findings(_ more: [String: String], now: Int64 = 1_795_440_000) throws -> [String] {
        RelayDoctor(try Self.read(more)).registration(now: QueueTime(millisecondsSince1970: now * 1_000))
            .map(\.description)
    }

    @Test("App Attest needs an app ID prefix, and takes Apple's root or another one")
    func appAttest() throws {
        let appAttest = ["webPush.registration": "appAttest"]
        let missing = #expect(throws: RelaySettingsError.self) { try Self.read(appAttest) }
        #expect(missing?.description.contains("app.fern.appIDPrefix") == true)
        let settings = try Self.read(appAttest.merging(["app.fern.appIDPrefix": "ABCDE12345"]) { $1 })
        guard case .appAttest(let verifier) = settings.webPush?.registration else {
            Issue.record("expected App Attest")
            return
        }
        #expect(verifier.rootExpiry == 2_373_148_800)
        #expect(settings.apps.first.map(GatewayApp.init)?.attested("production")?.id == "ABCDE12345.com.grasscove.Fern")
        for prefix in ["ABCDE", "ABCDE1234.", "ABCDE123456"] {
            let error = #expect(throws: RelaySettingsError.self) {
                try Self.read(appAttest.merging(["app.fern.appIDPrefix": prefix]) { $1 })
            }
            #expect(error?.description.contains("appIDPrefix") == true)
        }
        let folder = FileManager.default.temporaryDirectory.appending(path: "root-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let file = folder.appending(path: "root.pem")
        let own = ["webPush.appAttestRootFile": file.path, "app.fern.appIDPrefix": "ABCDE12345"]
        try TestAuthority(now: 1_795_440_000).rootPEM.write(to: file, atomically: true, encoding: .utf8)
        let other = try Self.read(appAttest.merging(own) { $1 })
        guard case .appAttest(let verifier) = other.webPush?.registration else {
            Issue.record("expected App Attest")
            return
        }
        #expect(verifier.rootExpiry == 1_796_440_000)
        try "no certificate".write(to: file, atomically: true, encoding: .utf8)
        for path in [file.path, folder.appending(path: "none").path] {
            let error = #expect(throws: RelaySettingsError.self) {
                try Self.read(appAttest.merging(own.merging(["webPush.appAttestRootFile": path]) { $1 }) { $1 })
            }
            #expect(error?.description.contains("webPush.appAttestRootFile") == true)
        }
    }

    @Test("The team ID of the credential is the app ID prefix, unless another one is set")
    func prefixes() throws {
        let key = [
            "app.fern.keyID": "0123456789", "app.fern.teamID": "TEAM123456",
            "app.fern.privateKey": P256.Signing.PrivateKey().pemRepresentation,
        ]
        #expect(try Self.read(key).apps.first?.appIDPrefix == "TEAM123456")
        let other = key.merging(["app.fern.appIDPrefix": "ABCDE12345"]) { $1 }
        #expect(try Self.read(other).apps.first?.appIDPrefix == "ABCDE12345")
        #expect(try Self.read([:]).apps.first?.appIDPrefix == nil)
    }

    @Test("Registration without verification is refused unless the relay listens on a loopback address")
    func open() throws {
        let callers = ["callers": "shop", "caller.shop.token": "0123456789abcdef"]
        let open = callers.merging(["webPush.registration": "open"]) { $1 }
        #expect(try Self.read(open).webPush?.registration == .open)
        for host in ["0.0.0.0", "192.0.2.1", "::"] {
            let error = #expect(throws: RelaySettingsError.self) {
                try Self.read(open.merging(["http.host": host]) { $1 })
            }
            #expect(error?.description.contains("webPush.registration") == true)
        }
        #expect(try Self.read(open.merging(["http.host": "::1"]) { $1 }).webPush?.registration == .open)
    }

    @Test("The doctor says who registers devices")
    func doctor() throws {
        let attest = ["webPush.registration": "appAttest", "app.fern.appIDPrefix": "ABCDE12345"]
        #expect(
            try Self.findings(attest) == [
                "ok     web push, app fern: devices register themselves with App Attest, as ABCDE12345.com.grasscove.Fern"
            ]
        )
        #expect(try Self.findings(attest, now: 2_373_148_801).first?.hasPrefix("failed web push: the root") == true)
        let moss = attest.merging(["apps": "fern, moss", "app.moss.topic": "com.grasscove.Moss"]) { $1 }
        #expect(try Self.findings(moss).last?.hasPrefix("failed web push, app moss: no device can register") == true)
        #expect(try Self.findings([:]) == ["ok     web push: devices are registered by everybody on this machine"])
        let callers = ["callers": "shop", "caller.shop.token": "0123456789abcdef"]
        #expect(try Self.findings(callers).first?.hasPrefix("failed web push: nobody can register") == true)
        let roles = callers.merging(["caller.shop.roles": "subscribe"]) { $1 }
        #expect(try Self.findings(roles) == ["ok     web push: devices are registered by shop"])
        #expect(try Self.findings(["webPush.registration": "open"]).first?.contains("without verification") == true)
    }
}
