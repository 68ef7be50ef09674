import APNSModel
import APNSSimulator
import Foundation
import TestSupport
import Testing

/// `apns send` from its command line.
struct SendTests {
    @Test func anAcceptedPushIsPrintedOnALine() async throws {
        try await Server.with { server in
            let result = try await Tool.run(["send", "--title", "Hey", "--badge", "2", token(1)] + server.options)
            #expect(result.status == 0, "\(result.error)")
            #expect(result.lines.count == 1)
            #expect(result.output.hasPrefix("\(token(1)) accepted 200 apns-id "))
            let push = try #require(server.simulator.record.pushes.first)
            #expect(push.topic == "com.example.app")
            #expect(push.pushType == .alert)
            #expect(String(decoding: push.payload, as: UTF8.self).contains(#""badge":2"#))
        }
    }

    @Test func aDeadTokenExitsWith1AndItsRowHasTheTime() async throws {
        try await Server.with { server in
            server.simulator.setToken(token(2), .unregistered(sinceMilliseconds: 1_700_000_000_123))
            let arguments = ["send", "--title", "Hey", "--json", token(1), token(2)]
            let result = try await Tool.run(arguments + server.options)
            #expect(result.status == 1, "\(result.error)")
            #expect(result.lines.count == 2)
            let id = try #require(server.simulator.record.pushes.first { $0.deviceToken == token(2) }?.apnsID)
            let row = #"""
                {"token":"\#(token(2))","outcome":"rejected","status":410,"reason":"Unregistered","apnsID":"\#(id)",\#
                "attempts":1,"tokenInvalidSince":1700000000123,"advice":"remove-token","retryAfterSeconds":null,\#
                "line":2,"apnsUniqueID":null}
                """#
            #expect(result.lines.last == row)
        }
    }

    @Test("A push that may be sent again exits with 75, whatever became of the others")
    func resendable() async throws {
        try await Server.with { server in
            server.simulator.setToken(token(2), .unregistered(sinceMilliseconds: 1_700_000_000_123))
            for reason in [
                RejectionReason.serviceUnavailable, .internalServerError, .tooManyRequests,
                .tooManyProviderTokenUpdates, .expiredProviderToken,
            ] {
                server.simulator.inject(
                    Fault(.respond(reason), when: FaultTrigger(times: nil, deviceTokens: [token(1)]))
                )
                for tokens in [[token(1)], [token(1), token(2), token(3)]] {
                    let result = try await Tool.run(
                        ["send", "--title", "Hey"] + server.options + tokens,
                        environment: ["APNS_RETRY_MAX_ATTEMPTS": "1"]
                    )
                    #expect(result.status == 75, "\(reason): \(result.output)")
                }
                server.simulator.removeFaults()
            }
        }
    }

    @Test("A push whose fate is unknown exits with 1: a resend may arrive twice")
    func unknownFate() async throws {
        try await Server.with { server in
            server.simulator.inject(Fault(.reset(code: 2), when: .always))
            let result = try await Tool.run(["send", "--title", "Hey", token(1)] + server.options)
            #expect(result.status == 1, "\(result.output)")
            #expect(result.output.hasPrefix("\(token(1)) unknown "))
        }
    }

    @Test("A push that APNs rejects because of the credential or the topic exits with 78 and names the reason")
    func configurationRejection() async throws {
        for reason in [RejectionReason.invalidProviderToken, .topicDisallowed] {
            try await Server.with { server in
                server.simulator.inject(Fault(.respond(ScriptedResponse(reason)), when: .always))
                let result = try await Tool.run(["send", "--title", "Hey", token(1)] + server.options)
                #expect(result.status == 78)
                #expect(result.lastErrorLine.contains("\(reason)"), "\(result.error)")
                let bulk = try await Tool.run(
                    try BulkTests.arguments(server, [token(1), token(2)].joined(separator: "\n"))
                )
                #expect(bulk.status == 78, "\(bulk.error)")
            }
        }
    }

    @Test func aPayloadIsSentUnchanged() async throws {
        try await Server.with { server in
            let payload = #"{ "aps" : {"content-available":1}, "id" : 7 }"#
            let result = try await Tool.run(
                ["send", "--push-type", "background", "--payload", "-", token(1)] + server.options,
                input: payload
            )
            #expect(result.status == 0, "\(result.error)")
            let push = try #require(server.simulator.record.pushes.first)
            #expect(String(decoding: push.payload, as: UTF8.self) == payload)
            #expect(push.priority == .conserve)
        }
    }

    @Test func optionsComeFromTheEnvironmentToo() async throws {
        try await Server.with { server in
            var variables: [String: String] = [:]
            let names = [
                "--endpoint": "APNS_ENDPOINT", "--ca-file": "APNS_CA_FILE", "--key": "APNS_KEY_FILE",
                "--team-id": "APNS_TEAM_ID", "--topic": "APNS_TOPIC",
            ]
            for index in stride(from: 0, to: server.options.count, by: 2) {
                variables[try #require(names[server.options[index]])] = server.options[index + 1]
            }
            let result = try await Tool.run(["send", "--title", "Hey", token(1)], environment: variables)
            #expect(result.status == 0, "\(result.error)")
        }
    }

    @Test func anInvalidTokenIsNotSent() async throws {
        try await Server.with { server in
            let result = try await Tool.run(["send", "--title", "Hey", "--json", "xyz"] + server.options)
            #expect(result.status == 1)
            #expect(result.output.contains(#""outcome":"not-sent","status":null,"reason":"deviceTokenNotHexadecimal""#))
            #expect(result.output.contains(#""advice":"fix-request""#))
            #expect(server.simulator.record.requestsReceived == 0)
        }
    }

    @Test func aClosedPortExitsWith75() async throws {
        let options = ["--endpoint", "https://127.0.0.1:1", "--topic", "com.example.app", "--timeout", "1"]
        let result = try await Tool.run(["send", "--title", "Hey", token(1)] + options)
        #expect(result.status == 75)
        #expect(result.output.hasPrefix("\(token(1)) not-sent "))
        // Without the option, the error would be that there is no connection.
        #expect(result.output.contains("deadline"), "\(result.output)")
    }

    @Test("A certificate that is not trusted fails without waiting for the deadline")
    func untrustedCertificate() async throws {
        try await Server.with { server in
            let other = try await Simulator.start()
            let path = try server.folder.write(other.certificateAuthorityPEM, to: "other.pem")
            await other.stop()
            for extra in [["--ca-file", path], []] {
                let options = [
                    "--endpoint", "https://localhost:\(server.simulator.port)", "--topic", "com.example.app",
                    "--timeout", "3600",
                ]
                let result = try await Tool.run(["send", "--title", "Hey", token(1)] + options + extra)
                #expect(result.status == 78)
                #expect(result.lastErrorLine.contains("not trusted"), "\(result.error)")
            }
        }
    }

    @Test(arguments: [
        (["--key", "/nowhere/AuthKey_9UC9ZLQ8YW.p8", "--team-id", "ABBM6U9RM5"], "--key: "),
        (["--endpoint", "https://localhost:1", "--ca-file", "/nowhere/ca.pem"], "--ca-file: "),
    ])
    func aMissingConfigurationFileExitsWith78(options: [String], name: String) async throws {
        let result = try await Tool.run(["send", "--title", "Hey", "--topic", "com.example.app", token(1)] + options)
        #expect(result.status == 78)
        #expect(result.error.hasPrefix("apns: \(name)"), "\(result.error)")
        #expect(result.output.isEmpty)
        #expect(result.error.split(separator: "\n").count == 1)
    }

    @Test(arguments: [
        (["--endpoint", "http://localhost:1"], "--endpoint"),
        (["--endpoint", "localhost:1"], "--endpoint"),
        (["--endpoint", "https://localhost:65536"], "--endpoint"),
        (["--endpoint", "https://localhost:0"], "--endpoint"),
        (["--endpoint", "https://localhost:1/3/device"], "--endpoint"),
        (["--endpoint", "https://localhost:1", "--environment", "production"], "--environment"),
        (["--environment", "staging"], "--environment"),
        (["--endpoint", "https://localhost:1", "--timeout", "-1"], "--timeout"),
        (["--endpoint", "https://localhost:1", "--timeout", "0"], "--timeout"),
        (["--endpoint", "https://localhost:1", "--timeout", "soon"], "--timeout"),
        (["--endpoint", "https://localhost:1", "--timeout", "nan"], "--timeout"),
        (["--endpoint", "https://localhost:1", "--pool-size", "-2"], "--pool-size"),
        (["--endpoint", "https://localhost:1", "--pool-size", "0", "--max-overflow", "0"], "--max-overflow"),
        (["--endpoint", "https://localhost:1", "--in-flight", "0"], "--in-flight"),
        (["--endpoint", "https://localhost:1", "--key-id", "9UC9ZLQ8YW"], "--key-id"),
        (["--key", "AuthKey_9UC9ZLQ8YW.p8"], "--team-id"),
        (["--environment", "development"], "--key"),
        (["--endpoint", "https://api.push.apple.com"], "--key"),
        (["--endpoint", "https://localhost:1", "--payload", "/nowhere.json"], "--payload"),
        (["--endpoint", "https://localhost:1", "--priority", "11"], "--priority"),
        (["--endpoint", "https://localhost:1", "--expiration", "tomorrow"], "--expiration"),
        (["--endpoint", "https://localhost:1", "--nonsense"], "--nonsense"),
    ])
    func invalidOptionsExitWith64AndAreNamed(options: [String], name: String) async throws {
        let content = options.contains("--payload") ? [] : ["--title", "Hey"]
        let result = try await Tool.run(["send", "--topic", "com.example.app", token(1)] + content + options)
        #expect(result.status == 64)
        #expect(result.error.contains(name), "\(result.error)")
        #expect(result.output.isEmpty)
    }

    @Test func mistakesInTheEnvironmentNameTheVariable() async throws {
        let arguments = ["send", "--title", "Hey", "--topic", "com.example.app", token(1)]
        let result = try await Tool.run(
            arguments,
            environment: ["APNS_ENDPOINT": "https://localhost:1", "APNS_POOL_SIZE": "many"]
        )
        #expect(result.status == 64)
        #expect(result.error.contains("APNS_POOL_SIZE"))
    }

    @Test func missingContentDeviceOrTopicExitsWith64() async throws {
        let options = ["--endpoint", "https://localhost:1"]
        #expect(try await Tool.run(["send", "--topic", "a.b", token(1)] + options).status == 64)
        #expect(try await Tool.run(["send", "--topic", "a.b", "--title", "Hey"] + options).status == 64)
        let noTopic = try await Tool.run(["send", "--title", "Hey", token(1)] + options)
        #expect(noTopic.status == 64)
        #expect(noTopic.error.contains("--topic"))
    }
}
