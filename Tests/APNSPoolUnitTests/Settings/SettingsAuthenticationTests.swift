import Foundation
import Testing

@_spi(Relay) @testable import APNSPool
@testable import APNSPoolTestSupport

/// Keys and certificates from settings: the valid combinations, and that no secret is shown.
struct SettingsAuthenticationTests {
    private static let ids = ["keyID": SettingsFixtures.keyID, "teamID": SettingsFixtures.teamID]

    @Test func aKeyIsReadFromVariablesInAnyForm() throws {
        let forms = [
            KeyTexts.p256, KeyTexts.p256.replacingOccurrences(of: "\n", with: "\\n"),
            Data(KeyTexts.p256.utf8).base64EncodedString(),
        ]
        for form in forms {
            let variables = ["APNS_PRIVATE_KEY": form, "APNS_KEY_ID": "9UC9ZLQ8YW", "APNS_TEAM_ID": "ABBM6U9RM5"]
            let configuration = try APNSClientConfiguration(settings: [.environment(variables)])
            #expect(try configuration.authentication.makeSigner()?.identifiers.keyID == "9UC9ZLQ8YW")
            #expect(configuration.environment == .production)
        }
    }

    @Test func certificatesAreReadWithTheirKeys() async throws {
        let files = try await SettingsFixtures()
        let both = files.path("both.pem")
        try files.write(files.certificatePEM + files.certificateKeyPEM, to: both)
        let ways: [[String: String]] = [
            ["certificateFile": files.certificateFile, "certificateKeyFile": files.certificateKeyFile],
            ["certificateFile": both],
            ["certificate": files.certificatePEM, "certificateKey": files.certificateKeyPEM],
            ["certificateFile": files.pkcs12File, "passphrase": "open sesame"],
            ["certificateFile": files.pkcs12File, "certificatePasswordFile": files.passwordFile],
            ["pkcs12.data": Data(files.pkcs12).base64EncodedString(), "passphrase": "open sesame"],
        ]
        for way in ways {
            let authentication = try configuration(way).authentication
            #expect(try authentication.resolve(wallNow: WallClock.secondsSince1970()).certificate != nil, "\(way.keys)")
        }
    }

    struct Case: Sendable, CustomTestStringConvertible {
        var values: [String: String]
        var key: String
        var code: APNSConfigurationError.Code
        var testDescription: String { "\(self.key) \(self.code) \(self.values.keys.sorted())" }

        init(_ key: String, _ code: APNSConfigurationError.Code, _ values: [String: String]) {
            self.key = key
            self.code = code
            self.values = values
        }
    }

    static let cases: [Case] = [
        Case("keyFile", .missing, [:]),
        Case("keyFile", .missing, ["environment": "sandbox"]),
        Case("keyFile", .missing, ["endpoint": "https://api.push.apple.com"]),
        Case("keyFile", .fileUnreadable, ["keyFile": "/nowhere/AuthKey_9UC9ZLQ8YW.p8", "teamID": "ABBM6U9RM5"]),
        Case("teamID", .missing, ["keyFile": "AuthKey_9UC9ZLQ8YW.p8"]),
        Case("teamID", .missing, ["privateKey": KeyTexts.p256, "keyID": "9UC9ZLQ8YW"]),
        Case("keyID", .missing, ["privateKey": KeyTexts.p256, "teamID": "ABBM6U9RM5"]),
        Case("keyID", .missing, ["keyID": "9UC9ZLQ8YW"]),
        Case("teamID", .missing, ["teamID": "ABBM6U9RM5", "endpoint": "https://push.example.com"]),
        Case("keyID", .identifierInvalid, ["privateKey": KeyTexts.p256, "keyID": "9", "teamID": "ABBM6U9RM5"]),
        Case("teamID", .identifierInvalid, ["privateKey": KeyTexts.p256, "keyID": "9UC9ZLQ8YW", "teamID": "A"]),
        Case("privateKey", .notAKey, ["privateKey": "S3CRET", "keyID": "9UC9ZLQ8YW", "teamID": "ABBM6U9RM5"]),
        Case("privateKey", .keyTypeWrong, ["privateKey": KeyTexts.rsa, "keyID": "9UC9ZLQ8YW", "teamID": "ABBM6U9RM5"]),
        Case(
            "privateKey",
            .conflict,
            ["privateKey": KeyTexts.p256, "keyFile": "AuthKey_9UC9ZLQ8YW.p8"].merging(ids) { $1 }
        ),
        Case("passphrase", .conflict, ["privateKey": KeyTexts.p256, "passphrase": "S3CRET"].merging(ids) { $1 }),
        Case("certificateKey", .missing, ["certificate": KeyTexts.certificate]),
        Case("certificateKey", .missing, ["certificateKey": KeyTexts.p256]),
        Case("passphrase", .missing, ["passphrase": "S3CRET", "endpoint": "https://h"]),
        Case("tokenFile", .missing, ["tokenFile": "/run/token", "endpoint": "https://h"]),
        Case(
            "certificatePasswordFile",
            .fileUnreadable,
            ["certificateFile": "c.p12", "certificatePasswordFile": "/nowhere"]
        ),
        Case("port", .conflict, ["endpoint": "https://h", "port": "2197"]),
        Case("port", .outOfRange, ["port": "80"]),
        Case("endpoint", .conflict, ["environment": "production", "endpoint": "https://h"]),
        Case("privateKey", .conflict, ["certificateFile": "c.pem", "privateKey": KeyTexts.p256]),
        Case("teamID", .conflict, ["certificateFile": "c.pem", "teamID": "ABBM6U9RM5"]),
        Case("certificateFile", .conflict, ["certificateFile": "c.pem", "pkcs12.data": "AAAA"]),
        Case("keyFile", .conflict, ["keyFile": "k.p8", "certificateFile": "c.p12"]),
        Case("pkcs12.data", .notACertificate, ["pkcs12.data": "AAAA"]),
        Case("tokenRefreshInterval", .outOfRange, ["tokenRefreshInterval": "2h", "endpoint": "https://h"]),
        Case("fileCheckInterval", .outOfRange, ["fileCheckInterval": "0", "endpoint": "https://h"]),
        Case("caFile", .trustRootsUnusable, ["caFile": "/nowhere/ca.pem", "endpoint": "https://h"]),
        Case("caPEM", .trustRootsUnusable, ["caPEM": "no certificate", "endpoint": "https://h"]),
    ]

    @Test(arguments: Self.cases) func invalidCombinationsAreReported(_ test: Case) {
        let found = faults(test.values)
        #expect(found.contains { $0.key == "apns.\(test.key)" && $0.code == test.code }, "\(found)")
        #expect(!found.contains { $0.description.contains("S3CRET") })
    }

    /// The environment replaces the key that the file names.
    @Test func anEarlierSourceReplacesExclusiveSettings() throws {
        let file: [String: String] = [
            "keyFile": "/nowhere/key.p8", "environment": "production", "teamID": "ABBM6U9RM5", "keyID": "9UC9ZLQ8YW",
        ]
        let configuration = try APNSClientConfiguration(settings: [
            .environment(["APNS_PRIVATE_KEY": KeyTexts.p256, "APNS_ENDPOINT": "https://localhost"]), source(file),
        ])
        #expect(configuration.environment.host == "localhost")
        #expect(try configuration.authentication.makeSigner()?.identifiers.keyID == "9UC9ZLQ8YW")
    }

    @Test func aKeyInAWrongPlaceIsNotShown() {
        let body = "A5Sdg54ZGNoYMovX"
        let forms = [
            KeyTexts.p256, Data(KeyTexts.p256.utf8).base64EncodedString(),
            KeyTexts.p256.components(separatedBy: "\n").dropFirst().dropLast(2).joined(),
        ]
        for setting in SettingsTable.settings {
            for form in forms {
                var values = ["endpoint": "https://push.example.com"]
                values[setting.key] = form
                guard
                    let error = #expect(
                        throws: APNSSettingsError.self,
                        "\(setting.key)",
                        performing: {
                            try configuration(values)
                        }
                    )
                else { continue }
                let text = error.description + "\(error.faults)"
                #expect(!text.contains(body) && !text.contains(form.prefix(60)), "\(setting.key)")
            }
        }
    }

    @Test func descriptionsContainNoSecrets() async throws {
        let files = try await SettingsFixtures()
        let made = try configuration([
            "certificate": files.certificatePEM, "certificateKey": files.certificateKeyPEM, "passphrase": "hunter2",
            "proxy": "http://fern:hunter3@proxy:1",
        ])
        var text = "\(made)"
        dump(made, to: &text)
        #expect(!text.contains("hunter") && !text.contains("PRIVATE KEY"))
        let wrong = faults(["certificateFile": files.pkcs12File, "passphrase": "hunter2"])
        #expect(wrong.map(\.key) == ["apns.passphrase"])
        #expect(!"\(wrong)".contains("hunter2"))
        let proxy = faults(["endpoint": "https://h", "proxy": "http://fern:hunter2@proxy"])
        #expect(proxy.map(\.key) == ["apns.proxy"])
        #expect(!"\(proxy)".contains("hunter2"))
    }
}
