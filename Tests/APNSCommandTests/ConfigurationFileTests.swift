import APNSPool
import ArgumentParser
import Foundation
import Testing

@testable import APNSCommand

/// The file of `--config`, behind the command line and the environment.
@Suite struct ConfigurationFileTests {
    private func resolved(
        _ json: String,
        _ arguments: [String] = [],
        _ variables: [String: String] = [:]
    ) throws -> CommonOptions.Resolved {
        let folder = try Folder()
        defer { withExtendedLifetime(folder) {} }
        let path = try folder.write(json, to: "apns.json")
        let options = try CommonOptions.parse(["--config", path, "--endpoint", "https://localhost:1"] + arguments)
        return try options.resolved(EnvironmentVariables { variables[$0] })
    }

    private func complaint(_ json: String, _ arguments: [String] = []) -> String {
        do {
            _ = try self.resolved(json, arguments)
            return ""
        } catch {
            return CommonOptions.message(for: error)
        }
    }

    @Test func theFirstPlaceCounts() throws {
        let json =
            #"{"apns":{"pool":{"size":3,"maxOverflow":4}},"tool":{"topic":"from.file","inFlight":5},"other":[1]}"#
        let plain = try self.resolved(json)
        #expect(plain.poolSize == 3 && plain.maxOverflow == 4 && plain.topic == "from.file" && plain.inFlight == 5)
        let more = try self.resolved(json, ["--pool-size", "9"], ["APNS_POOL_SIZE": "8", "APNS_TOPIC": "from.env"])
        #expect(more.poolSize == 9 && more.maxOverflow == 4 && more.topic == "from.env")
        let origins = Dictionary(uniqueKeysWithValues: more.given.map { ($0.option, $0.origin) })
        #expect(origins["--pool-size"] == "command line")
        #expect(origins["--topic"] == "APNS_TOPIC")
        #expect(origins["--in-flight"]?.hasPrefix("tool.inFlight in /") == true)
    }

    @Test func whatExcludesEachOtherIsTakenFromTheFirstPlace() throws {
        let json = #"{"apns":{"environment":"development","certificateFile":"c.pem"}}"#
        let options = try self.resolved(json, ["--key", "AuthKey_ABCDE12345.p8", "--team-id", "ABCDE12345"])
        #expect(options.key?.file.text == "AuthKey_ABCDE12345.p8" && options.certificate == nil)
        #expect(options.environment.host == "localhost")
        #expect(try self.resolved(json).certificate?.text == "c.pem")
        let both = #"{"apns":{"keyFile":"a.p8","teamID":"ABCDE12345","certificateFile":"c.pem"}}"#
        #expect(self.complaint(both).contains("apns.keyFile and apns.certificateFile contradict each other"))
    }

    @Test func mistakesAreNamed() throws {
        #expect(self.complaint("[1]").contains("holds no JSON object"))
        #expect(self.complaint(#"{"apns":{"pool":{"sise":1}}}"#).contains("'apns.pool.sise' is no setting"))
        #expect(self.complaint(#"{"tool":{"topic":["a"]}}"#).contains("'tool.topic' is a list"))
        #expect(self.complaint(#"{"apns":{"pool":{"size":"many"}}}"#).contains("apns.pool.size: 'many'"))
        #expect(throws: (any Error).self) {
            try CommonOptions.parse(["--config", "/nowhere", "--endpoint", "https://localhost:1"])
        }
    }

    @Test func theClientsOwnSettingsHold() throws {
        let json = #"{"apns":{"retry":{"maxAttempts":5},"timeouts":{"deadline":"9s","answer":"2s"}}}"#
        let options = try self.resolved(json, [], ["APNS_RETRY_MAX_ATTEMPTS": "4", "APNS_POOL_MAX_QUEUED": "77"])
        #expect(options.configuration.retry.maxAttempts == 4)
        #expect(options.configuration.pool.maxQueued == 77)
        #expect(options.configuration.timeouts.answer == .seconds(2))
        #expect(options.configuration.timeouts.deadline == .seconds(9) && options.timeout == .seconds(9))
        #expect(options.configuration.pool.size == 1 && options.configuration.environment.host == "localhost")
        let origins = Dictionary(uniqueKeysWithValues: options.given.map { ($0.option, $0.origin) })
        #expect(origins["apns.retry.maxAttempts"] == "APNS_RETRY_MAX_ATTEMPTS")
        #expect(origins["apns.timeouts.answer"]?.hasPrefix("apns.timeouts.answer in /") == true)

        #expect(try self.resolved(json, ["--timeout", "3"]).configuration.timeouts.deadline == .seconds(3))
        let complaint = self.complaint(#"{"apns":{"retry":{"maxAttempts":"many"},"pool":{"strategy":"odd"}}}"#)
        #expect(complaint.contains("apns.retry.maxAttempts") && complaint.contains("apns.pool.strategy"))
    }

    @Test func aPasswordComesFromAFile() throws {
        let folder = try Folder()
        defer { withExtendedLifetime(folder) {} }
        let password = try folder.write("s3cret\nmore\n", to: "password")
        let options = try self.resolved(
            #"{"tool":{"proxy":"http://u:s3cret@proxy:1"}}"#,
            ["--certificate", "c.p12", "--certificate-password-file", password]
        )
        #expect(options.certificate?.text == "c.p12")
        #expect(!"\(options.given)".contains("s3cret"))
        let key = ["--certificate", "c.p12", "--certificate-key", "k.pem"]
        #expect(self.complaint("{}", key).contains("--certificate-key: 'c.p12' is a PKCS#12 file"))
    }
}
