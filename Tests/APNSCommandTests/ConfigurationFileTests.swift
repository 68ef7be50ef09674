@_spi(Relay) import APNSPool
import ArgumentParser
import Foundation
import Testing

@testable import APNSCommand

/// The file of `--config`, which ranks after the command line and the environment.
struct ConfigurationFileTests {
    private func resolved(
        _ json: String,
        _ arguments: [String] = [],
        _ variables: [String: String] = [:]
    ) throws -> ToolSettings {
        let folder = try Folder()
        defer { withExtendedLifetime(folder) {} }
        let path = try folder.write(json, to: "apns.json")
        return try settings(["--config", path, "--endpoint", "https://localhost:1"] + arguments, variables)
    }

    private func complaint(_ json: String, _ arguments: [String] = []) -> String {
        do {
            _ = try self.resolved(json, arguments)
            return ""
        } catch {
            return CommonOptions.message(for: error)
        }
    }

    @Test("An option overrides the environment, which overrides the file, which overrides the default")
    func precedence() throws {
        let json =
            #"{"apns":{"pool":{"size":3,"maxOverflow":4},"topic":"from.file","inFlight":5},"other":[1]}"#
        let plain = try self.resolved(json)
        #expect(plain.configuration.pool.size == 3 && plain.configuration.pool.maxOverflow == 4)
        #expect(plain.topic == "from.file" && plain.inFlight == 5 && plain.configuration.pool.maxQueued == 10_000)
        let more = try self.resolved(json, ["--pool-size", "9"], ["APNS_POOL_SIZE": "8", "APNS_TOPIC": "from.env"])
        #expect(more.configuration.pool.size == 9 && more.configuration.pool.maxOverflow == 4)
        #expect(more.topic == "from.env")
        let origins = Dictionary(uniqueKeysWithValues: more.given.map { ($0.option, $0.origin) })
        #expect(origins["--pool-size"] == "command line")
        #expect(origins["--topic"] == "APNS_TOPIC")
        #expect(origins["--in-flight"]?.hasPrefix("apns.inFlight in /") == true)
    }

    @Test("Of settings that exclude each other, the first source wins; in one source they are an error")
    func exclusiveSettings() throws {
        let json = #"{"apns":{"environment":"development","certificateFile":"c.pem"}}"#
        let options = try self.resolved(json, ["--key", "AuthKey_ABCDE12345.p8", "--team-id", "ABCDE12345"])
        #expect(options.credentialFile == "AuthKey_ABCDE12345.p8")
        #expect(options.configuration.environment.host == "localhost")
        #expect(!options.given.contains { $0.value == "c.pem" })
        #expect(try self.resolved(json).credentialFile == "c.pem")
        let both = self.complaint(#"{"apns":{"keyFile":"a.p8","teamID":"ABCDE12345","certificateFile":"c.pem"}}"#)
        #expect(both.contains("apns.keyFile") && both.contains("'apns.certificateFile' exclude each other"))
        #expect(both.split(separator: "\n").count == 1, "\(both)")
    }

    @Test("All mistakes are reported at once, each with its key") func mistakesAreReported() throws {
        #expect(self.complaint("[1]").contains("not a JSON object"))
        #expect(self.complaint(#"{"apns":{"pool":{"sise":1}}}"#).contains("did you mean 'apns.pool.size'"))
        #expect(self.complaint(#"{"apns":{"topic":["a"]}}"#).contains("it is a list"))
        let two = self.complaint(#"{"apns":{"pool":{"size":"many"}}}"#, ["--in-flight", "0"])
        #expect(two.contains("apns.pool.size (/") && two.contains("'many' is not a whole number"))
        #expect(two.contains("--in-flight: '0' is out of range"))
        #expect(two.split(separator: "\n").count == 2)
        #expect(self.complaint(#"{"endpoint": "https://localhost:2197"}"#).contains(#"has no "apns""#))
        // An empty option counts as not set.
        let second = APNSCommandTests.complaint(["--config", ""], ["APNS_CONFIG": "/nowhere"])
        #expect(second.contains("--config: /nowhere"))
        #expect(APNSCommandTests.complaint(["--config", "/nowhere"]).contains("--config: /nowhere"))
    }

    @Test("All settings of the client are accepted under their own names") func theClientsSettingsAreAccepted() throws {
        let json = #"{"apns":{"retry":{"maxAttempts":5},"timeouts":{"deadline":"9s","response":"2s"}}}"#
        let options = try self.resolved(json, [], ["APNS_RETRY_MAX_ATTEMPTS": "4", "APNS_POOL_MAX_QUEUED": "77"])
        #expect(options.configuration.retry.maxAttempts == 4)
        #expect(options.configuration.pool.maxQueued == 77)
        #expect(options.configuration.timeouts.response == .seconds(2))
        #expect(options.configuration.timeouts.deadline == .seconds(9))
        #expect(options.configuration.pool.size == 1 && options.configuration.environment.host == "localhost")
        let origins = Dictionary(uniqueKeysWithValues: options.given.map { ($0.option, $0.origin) })
        #expect(origins["apns.retry.maxAttempts"] == "APNS_RETRY_MAX_ATTEMPTS")
        #expect(origins["apns.timeouts.response"]?.hasPrefix("apns.timeouts.response in /") == true)

        #expect(try self.resolved(json, ["--timeout", "3"]).configuration.timeouts.deadline == .seconds(3))
        let complaint = self.complaint(#"{"apns":{"retry":{"maxAttempts":"many"},"pool":{"strategy":"odd"}}}"#)
        #expect(complaint.contains("apns.retry.maxAttempts") && complaint.contains("apns.pool.strategy"))
    }

    @Test("The password of a certificate comes from a file, and no password is shown") func aPasswordComesFromAFile()
        throws
    {
        let folder = try Folder()
        defer { withExtendedLifetime(folder) {} }
        let password = try folder.write("s3cret\nmore\n", to: "password")
        let options = try self.resolved(
            #"{"apns":{"proxy":"http://u:s3cret@proxy:1"}}"#,
            ["--certificate", "c.p12", "--certificate-password-file", password]
        )
        #expect(options.credentialFile == "c.p12")
        #expect(!"\(options.given)".contains("s3cret"))
        let key = ["--certificate", "c.p12", "--certificate-key", "k.pem"]
        #expect(self.complaint("{}", key).contains("--certificate-key: 'c.p12' is a PKCS#12 file"))
        #expect(
            self.complaint("{}", ["--certificate", "c.p12", "--certificate-password-file", "/nowhere"])
                .contains("--certificate-password-file: '/nowhere' cannot be read")
        )
    }

    @Test("Each option is a setting") func eachOptionIsASetting() {
        let keys = Set((SettingsTable.settings + SettingsTable.tool).map(\.key))
        #expect(SettingOption.all.allSatisfy { keys.contains($0.key) })
    }
}
