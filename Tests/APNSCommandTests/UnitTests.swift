import APNSPool
import ArgumentParser
import Foundation
import Testing

@testable import APNSCommand

/// The parts of the tool, without a server.
struct UnitTests {
    private func lines(_ text: String, chunkSize: Int) throws -> [LineReader.Next] {
        let folder = try Folder()
        let reader = try LineReader(
            path: try folder.write(text, to: "lines"),
            option: "--tokens",
            chunkSize: chunkSize
        )
        var lines: [LineReader.Next] = []
        while true {
            let next = reader.next()
            if next == .end { return lines }
            lines.append(next)
        }
    }

    @Test(arguments: [1, 2, 3, 7, 65536])
    func theSizeOfReadsDoesNotChangeTheLines(chunkSize: Int) throws {
        let found = try self.lines("\u{FEFF}one\r\n\n  \t\n two \n\nthr\u{E9}e", chunkSize: chunkSize)
        #expect(found == [.line("one", number: 1), .line("two", number: 4), .line("thr\u{E9}e", number: 6)])
        #expect(try self.lines("", chunkSize: chunkSize) == [])
        #expect(try self.lines("\n\n", chunkSize: chunkSize) == [])
    }

    @Test func overlongLinesAreCutOff() throws {
        let found = try self.lines(String(repeating: "a", count: 100_000) + "\nb", chunkSize: 4096)
        #expect(found.count == 2)
        #expect(found.first == .line(String(repeating: "a", count: LineReader.maximumLineLength), number: 1))
        #expect(found.last == .line("b", number: 2))
    }

    @Test func readingADirectoryFails() throws {
        let folder = try Folder()
        let reader = try LineReader(path: folder.url.path, option: "--tokens")
        #expect(reader.next() == .end)
        #expect(reader.failure != nil)
    }

    @Test func rowsEscapeControlCharacters() throws {
        let error = PushError(code: .queueFull, certainty: .notSent, message: "m", retryAfter: .milliseconds(1250))
        let row = ResultRow(token: "a\"\\\t\u{1}\u{E9}", outcome: .failed(error), line: 7)
        #expect(
            row.json == #"{"token":"a\"\\\t\u0001\#u{E9}","outcome":"not-sent","status":null,"reason":null,"#
                + #""apnsID":null,"attempts":0,"tokenInvalidSince":null,"advice":"wait","retryAfterSeconds":1.25,"line":7,"#
                + #""apnsUniqueID":null}"#
        )
        let object = try JSONSerialization.jsonObject(with: Data(row.json.utf8)) as? [String: Any]
        #expect(object?["token"] as? String == row.token)
    }

    @Test("A row ends with the id that Apple's delivery log shows") func rowsEndWithTheUniqueID() {
        let receipt = Receipt(apnsID: .random(), apnsUniqueID: "6f2e0a4d-9b7c-4c0e-8d5e-0a1b2c3d4e5f")
        let row = ResultRow(token: "00", outcome: .accepted(receipt), line: 1)
        #expect(row.json.hasSuffix(#","line":1,"apnsUniqueID":"6f2e0a4d-9b7c-4c0e-8d5e-0a1b2c3d4e5f"}"#))
    }

    @Test("The status is 75 as long as a push is left to send, then 1 if one was not accepted")
    func exitStatus() {
        func status(_ outcomes: [PushOutcome]) -> Int32 {
            var counts = OutcomeCounts()
            for outcome in outcomes { counts.count(outcome) }
            return counts.status.rawValue
        }
        func failed(_ code: PushError.Code, _ certainty: Certainty) -> PushOutcome {
            .failed(PushError(code: code, certainty: certainty, message: ""))
        }
        let accepted = PushOutcome.accepted(Receipt(apnsID: .random()))
        func rejection(_ reason: RejectionReason) -> PushOutcome {
            .failed(.rejected(Rejection(status: reason.status ?? 0, reason: reason), attempts: 1))
        }
        let rejected = rejection(.unregistered)
        #expect(status([]) == 0)
        #expect(status([accepted]) == 0)
        #expect(status([accepted, failed(.unavailable, .notSent)]) == 75)
        #expect(status([accepted, failed(.goAway, .notProcessed)]) == 75)
        #expect(status([accepted, failed(.connectionLost, .unknown)]) == 1)
        #expect(status([accepted, failed(.validation, .notSent)]) == 1)
        #expect(status([accepted, failed(.expired, .notSent)]) == 1)
        #expect(status([accepted, rejected]) == 1)
        #expect(status([accepted, rejection(.badDeviceToken)]) == 1)
        let passing: [RejectionReason] = [
            .serviceUnavailable, .shutdown, .internalServerError, .tooManyRequests, .tooManyProviderTokenUpdates,
            .expiredProviderToken, .idleTimeout,
        ]
        for reason in passing { #expect(status([rejection(reason)]) == 75, "\(reason)") }
        for other in [rejected, failed(.connectionLost, .unknown), failed(.validation, .notSent)] {
            #expect(status([other, failed(.unavailable, .notSent)]) == 75)
            #expect(status([rejection(.serviceUnavailable), other]) == 75)
        }
        #expect(status([rejected, failed(.configuration, .notSent)]) == 78)
        #expect(status([failed(.credential, .notSent)]) == 78)
    }

    @Test("If APNs rejects every push because of the credential or the topic, the status is 78")
    func configurationRejections() {
        func rejected(_ status: Int, _ reason: RejectionReason?) -> PushOutcome {
            .failed(.rejected(Rejection(status: status, reason: reason), attempts: 1))
        }
        func counts(_ outcomes: [PushOutcome]) -> OutcomeCounts {
            outcomes.reduce(into: OutcomeCounts()) { $0.count($1) }
        }
        let refused = [
            rejected(403, .invalidProviderToken), rejected(403, .topicMismatch), rejected(400, .topicDisallowed),
            rejected(400, .badTopic), rejected(400, .missingTopic),
        ]
        let unavailable = PushOutcome.failed(PushError(code: .unavailable, certainty: .notSent, message: ""))
        for outcome in refused {
            #expect(counts([outcome]).status.rawValue == 78)
            #expect(counts([outcome]).configurationError == outcome.error)
            #expect(counts([unavailable, outcome, outcome]).status.rawValue == 78)
            for unproved in [413, 429, 500, 503] {
                #expect(counts([rejected(unproved, nil), outcome]).status.rawValue == 78)
            }
            for other in [.accepted(Receipt(apnsID: .random())), rejected(410, .unregistered), rejected(400, nil)] {
                // A credential that works now may accept the push.
                let isLeft = outcome.advice == .fixCredential
                #expect(counts([outcome, other]).status.rawValue == (isLeft ? 75 : 1))
                #expect(counts([other, outcome]).configurationError == nil)
            }
        }
        // Rows of an earlier run do not show that the configuration of this run works.
        var resumed = OutcomeCounts()
        resumed.add(.accepted, .done, 10)
        resumed.count(refused[0])
        #expect(resumed.status.rawValue == 78)
    }

    @Test("The last line and the exit status agree, and the numbers add up")
    func remainingLines() {
        var counts = OutcomeCounts()
        counts.add(.accepted, .done, 90)
        counts.add(.rejected, .misdirected, 2)
        counts.add(.unknown, .done, 1)
        #expect(counts.line == "accepted 90, rejected 2, not-processed 0, not-sent 0, unknown 1")
        #expect(counts.status.rawValue == 1 && counts.remaining == 0)
        counts.add(.notSent, .remaining, 3)
        #expect(counts.line == "accepted 90, rejected 2, not-processed 0, not-sent 3, unknown 1; remaining 3")
        #expect(counts.status.rawValue == 75)
        counts.withoutOutcome = 4
        #expect(counts.remaining == 7 && counts.total == 96)
        #expect(
            counts.line
                == "accepted 90, rejected 2, not-processed 0, not-sent 3, unknown 1; remaining 7, of them 4 without a row"
        )
        #expect(
            counts.advice == [
                "--resume sends 7 lines that remain.",
                "--resume also resends 2 lines whose device tokens do not match the environment or the topic.",
                "Only --resend-unknown resends 1 line with an unknown outcome.",
            ]
        )
        // A pipe that was not read to its end.
        counts.withoutOutcome = nil
        #expect(counts.remaining == nil && counts.status.rawValue == 75)
        #expect(counts.line.hasSuffix("unknown 1; remaining 3 and all lines after them"))
        // The rows are replaced.
        counts.add(.notSent, .remaining, -3)
        counts.add(.unknown, .done, 3)
        counts.withoutOutcome = 0
        #expect(counts.remaining == 0 && counts.status.rawValue == 1)
    }

    @Test("Causes are counted by name up to a limit and as one beyond it")
    func causesAreBounded() {
        var counts = OutcomeCounts()
        for _ in 1...2 {
            for number in 0..<100 {
                let reason = RejectionReason(rawValue: "Reason\(number)")
                counts.count(.failed(.rejected(Rejection(status: 400, reason: reason), attempts: 1)))
            }
        }
        #expect(counts.causes.count == OutcomeCounts.causeLimit + 1)
        #expect(counts.causes["400 Reason0"] == 2 && counts.causes["400 Reason63"] == 2)
        #expect(counts.causes["other"] == 72)
    }

    @Test("The command line overrides the environment, and an empty variable counts as not set")
    func theCommandLineWinsOverTheEnvironment() throws {
        let variables = [
            "APNS_ENDPOINT": "https://a.example:1", "APNS_POOL_SIZE": "7", "APNS_TOPIC": "",
            "APNS_TIMEOUTS_DEADLINE": "0.5",
        ]
        let plain = try settings(["--endpoint", "https://b.example:2"], variables)
        #expect(plain.configuration.environment.host == "b.example")
        #expect(plain.configuration.pool.size == 7)
        #expect(plain.topic == nil)
        #expect(plain.configuration.timeouts.deadline == .milliseconds(500))
        let other = try settings(["--endpoint", "https://b.example:2", "--pool-size", "2"], variables)
        #expect(other.configuration.pool.size == 2)
    }
}

/// The settings that a command resolves from options and variables.
func settings(_ arguments: [String], _ variables: [String: String] = [:]) throws -> ToolSettings {
    var process = ToolProcess()
    process.variables = variables
    return try ToolProcess.$current.withValue(process) { try CommonOptions.parse(arguments).resolved() }
}

/// The error message for options and variables; empty if they are valid.
func complaint(_ arguments: [String], _ variables: [String: String] = [:]) -> String {
    do {
        _ = try settings(arguments, variables)
        return ""
    } catch {
        return CommonOptions.message(for: error)
    }
}
