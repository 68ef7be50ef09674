import APNSModel
import Foundation
import TestSupport
import Testing

struct RejectionReasonTests {
    /// The statuses and reasons on Apple's two pages and observed on the wire.
    static let documented: [Int: [String]] = [
        400: [
            "BadCollapseId", "BadDeviceToken", "BadExpirationDate", "BadMessageId", "BadPriority", "BadTopic",
            "DeviceTokenNotForTopic", "DuplicateHeaders", "IdleTimeout", "InvalidPushType", "MissingDeviceToken",
            "MissingTopic", "PayloadEmpty", "TopicDisallowed", "FeatureNotEnabled", "BroadcastFeatureNotEnabled",
            "MissingChannelId", "BadChannelId", "ChannelNotRegistered", "BadRequestParams", "BadRequestPayload",
            "MissingPushType", "CannotCreateChannelConfig", "MissingChannelQueueSize",
        ],
        403: [
            "BadCertificate", "BadCertificateEnvironment", "BadEnvironmentKeyIdInToken", "BadEnvironmentKeyInToken",
            "ExpiredProviderToken", "Forbidden", "InvalidProviderToken", "MissingProviderToken",
            "UnrelatedKeyIdInToken", "TopicMismatch",
        ],
        404: ["BadPath"],
        405: ["MethodNotAllowed"],
        410: ["ExpiredToken", "Unregistered"],
        413: ["PayloadTooLarge"],
        429: ["TooManyProviderTokenUpdates", "TooManyRequests"],
        500: ["InternalServerError"],
        503: ["ServiceUnavailable", "Service Unavailable", "Shutdown"],
    ]

    @Test func theTableHasEveryReason() {
        var found: Set<RejectionReason> = []
        for (status, reasons) in Self.documented {
            for text in reasons {
                let reason = RejectionReason(rawValue: text)
                #expect(reason.status == status, "\(text)")
                #expect(reason.meaning?.isEmpty == false)
                #expect(reason.rawValue == text)
                found.insert(reason)
            }
        }
        #expect(found == Set(RejectionReason.known))
        #expect(RejectionReason.known.count == found.count)
    }

    @Test func spellingsAreEqual() {
        #expect(RejectionReason(rawValue: "BadEnvironmentKeyIdInToken") == .badEnvironmentKeyInToken)
        #expect(RejectionReason(rawValue: "FeatureNotEnabled") == .broadcastFeatureNotEnabled)
        #expect(RejectionReason(rawValue: "Service Unavailable") == .serviceUnavailable)
        #expect(RejectionReason(rawValue: "Unregistered") != .expiredToken)
        let new = RejectionReason(rawValue: "MercuryInRetrograde")
        #expect(new.status == nil && new.meaning == nil && new.rawValue == "MercuryInRetrograde")
    }

    @Test func codingKeepsTheSpelling() throws {
        let reason = RejectionReason(rawValue: "BadEnvironmentKeyIdInToken")
        let data = try JSONEncoder().encode([reason])
        #expect(String(decoding: data, as: UTF8.self) == #"["BadEnvironmentKeyIdInToken"]"#)
        #expect(try JSONDecoder().decode([RejectionReason].self, from: data).first?.rawValue == reason.rawValue)
    }

    /// For every reason: whether to resend, the advice, and whether the token is invalid.
    @Test func reasonsDecideResendAdviceAndInvalidation() {
        let resend: [RejectionReason: Duration?] = [
            .idleTimeout: .zero, .expiredProviderToken: .zero, .unrelatedKeyIDInToken: .zero, .shutdown: .zero,
            .internalServerError: .seconds(900), .serviceUnavailable: .seconds(900),
            .tooManyProviderTokenUpdates: .seconds(1_200), .tooManyRequests: nil,
        ]
        for reason in RejectionReason.known {
            let error = PushError.rejected(Rejection(status: reason.status ?? 0, reason: reason), attempts: 1)
            #expect(error.canResend == (resend[reason] != nil), "\(reason)")
            #expect(error.retryAfter == (resend[reason] ?? nil), "\(reason)")
            #expect((error.invalidation != nil) == (reason == .unregistered || reason == .expiredToken), "\(reason)")
            #expect(error.certainty == .rejected)
            let expected: Advice
            switch reason {
            case .unregistered, .expiredToken: expected = .removeToken
            case .badDeviceToken, .deviceTokenNotForTopic: expected = .checkEnvironment
            case .idleTimeout, .expiredProviderToken, .unrelatedKeyIDInToken, .shutdown: expected = .resend
            case .internalServerError, .serviceUnavailable, .tooManyRequests, .tooManyProviderTokenUpdates:
                expected = .wait
            case _ where reason.status == 403: expected = .fixCredential
            default: expected = .fixRequest
            }
            #expect(error.advice == expected, "\(reason)")
        }
    }

    @Test(arguments: [
        (400, false, Advice.fixRequest), (403, false, .fixCredential), (410, false, .fixRequest),
        (418, false, .fixRequest),
        (429, true, .wait), (500, false, .none), (502, false, .none), (599, false, .none), (302, false, .fixRequest),
    ])
    func unknownReasonsFollowTheStatus(status: Int, canResend: Bool, advice: Advice) {
        let error = PushError.rejected(
            Rejection(status: status, reason: RejectionReason(rawValue: "New")),
            attempts: 1
        )
        #expect(error.canResend == canResend)
        #expect(error.advice == advice)
        #expect(error.invalidation == nil)
    }
}

struct RejectionTests {
    private func parse(_ text: String, status: Int = 410) -> Rejection {
        Rejection(status: status, body: Array(text.utf8))
    }

    @Test func bodiesAreParsed() {
        let gone = parse(#"{"reason":"Unregistered","timestamp":1454948015990}"#)
        #expect(gone.reason == .unregistered)
        #expect(gone.timestamp == 1_454_948_015_990)
        #expect(gone.invalidation?.since == Date(timeIntervalSince1970: 1_454_948_015.99))
        #expect(parse(" \n{ \"timestamp\" : 1.5e3 , \"x\":[{}], \"reason\" : \"\\u0041b\\n\" } x").timestamp == 1_500)
        #expect(parse(#"{"reason":"\u00e9\ud83c\udf89\/"}"#).reason?.rawValue == "é🎉/")
        #expect(parse(#"{"reason":"\ud83c"}"#).reason == nil)
        // Fields before the truncation are read.
        #expect(parse(#"{"reason":"Unregistered","timest"#).reason == .unregistered)
        #expect(parse(#"{"reason":"Unregis"#).reason == nil)
        for text in ["", "<html>503</html>", "null", "[]", "{", #"{"reason":null}"#, #"{"reason":7}"#, "\"x\""] {
            let rejection = parse(text, status: 503)
            #expect(rejection.reason == nil)
            #expect(rejection.status == 503)
            #expect(rejection.rawBody == Array(text.utf8))
        }
        #expect(parse(#"{"timestamp":1e400}"#).timestamp == nil)
        #expect(parse(#"{"timestamp":1e30}"#).timestamp == nil)
        #expect(parse(#"{"timestamp":99999999999999999999999}"#).timestamp == nil)
        #expect(parse(#"{"timestamp":-1}"#).timestamp == -1)
    }

    @Test func storedBodiesAreLimited() {
        let body = Array(#"{"reason":"Unregistered","x":""#.utf8) + [UInt8](repeating: 0x61, count: 100_000)
        let rejection = Rejection(status: 410, body: body)
        #expect(rejection.rawBody.count == 4_096)
        #expect(rejection.reason == .unregistered)
    }

    @Test(.timeLimit(.minutes(5))) func theScannerAcceptsAnyBytes() async {
        var generator = SeededRandom(seed: 42)
        let seeds = [
            #"{"reason":"Unregistered","timestamp":1454948015990}"#, #"{"a":[[[[{"b":1e5}]]]],"reason":"\u0041"}"#,
            String(repeating: "[", count: 3_000), String(repeating: #"{"a":"#, count: 800),
            #"{"reason":"x","n":-0.00001E+99999999999999999999}"#, #"{"reason":"\ud800\ud800\udc00"}"#,
        ].map { Array($0.utf8) }
        let alphabet = Array(#"{}[]":,\u0123456789eE+-.truefalsn "#.utf8)
        for round in 0..<TestScale.times(6_000) {
            if round.isMultiple(of: 100) { await TestScale.letOthersRun() }
            var body = seeds[round % seeds.count]
            for _ in 0..<Int.random(in: 0..<6, using: &generator) {
                let index = Int.random(in: 0..<max(body.count, 1), using: &generator)
                let byte =
                    generator.chance(3)
                    ? UInt8(truncatingIfNeeded: generator.next())
                    : alphabet.randomElement(using: &generator) ?? 0
                switch generator.next() % 4 {
                case 0: body.insert(byte, at: min(index, body.count))
                case 1 where !body.isEmpty: body.remove(at: index)
                case 2 where !body.isEmpty: body[index] = byte
                default: body = Array(body.prefix(index))
                }
            }
            let rejection = Rejection(status: 410, body: body)
            if rejection.rawBody != Array(body.prefix(4_096)) || rejection.status != 410 {
                Issue.record("round \(round)")
            }
        }
    }

    @Test func removalDependsOnTheTimestamp() {
        let at = TokenInvalidation(millisecondsSince1970: 1_000_500)
        #expect(at.shouldRemove(registeredAt: Date(timeIntervalSince1970: 1_000)))
        #expect(at.shouldRemove(registeredAt: Date(timeIntervalSince1970: 1_000.5)))
        #expect(!at.shouldRemove(registeredAt: Date(timeIntervalSince1970: 1_001)))
        #expect(at.shouldRemove(registeredAt: nil))
        let unknown = TokenInvalidation(millisecondsSince1970: nil)
        #expect(!unknown.shouldRemove(registeredAt: nil))
        #expect(!unknown.shouldRemove(registeredAt: .distantPast))
        // A 410 with an empty body invalidates the token. A 410 with an unknown reason does not.
        #expect(parse("").invalidation == TokenInvalidation(millisecondsSince1970: nil))
        #expect(parse(#"{"reason":"New","timestamp":1}"#).invalidation == nil)
        #expect(parse(#"{"reason":"Unregistered","timestamp":1}"#, status: 400).invalidation == nil)
    }
}

struct OutcomeTests {
    @Test func certaintiesAreOrdered() {
        #expect(Certainty.allCases.sorted() == [.notSent, .notProcessed, .rejected, .unknown, .accepted])
        #expect([Certainty.notSent, .unknown, .rejected].max() == .unknown)
        #expect(Certainty.allCases.map(\.rawValue) == ["accepted", "rejected", "not-processed", "not-sent", "unknown"])
    }

    @Test func canResendByCertaintyAndCode() {
        let never: Set<PushError.Code> = [.validation, .expired, .superseded]
        let codes: [PushError.Code] = [
            .validation, .deadlineExceeded, .cancelled, .queueFull, .unavailable, .shuttingDown, .notRunning,
            .credential, .configuration, .connectionLost, .connectionFault, .refused, .goAway, .expired, .superseded,
            .suspectedMisconfiguration, .internalFault,
        ]
        for code in codes {
            for certainty in Certainty.allCases {
                let error = PushError(code: code, certainty: certainty, message: "m")
                let safe = certainty == .notSent || certainty == .notProcessed
                #expect(error.canResend == (safe && !never.contains(code)))
                #expect(error.invalidation == nil)
                if certainty == .unknown { #expect(error.advice == .none) }
            }
        }
        func advice(_ code: PushError.Code) -> Advice {
            PushError(code: code, certainty: .notSent, message: "").advice
        }
        #expect(advice(.validation) == .fixRequest)
        #expect(advice(.credential) == .fixCredential)
        #expect(advice(.configuration) == .checkEnvironment)
        #expect(advice(.unavailable) == .wait)
        #expect(advice(.goAway) == .resend)
        #expect(advice(.expired) == .none)
    }

    @Test func outcomesForwardToReceiptAndError() throws {
        let receipt = Receipt(apnsID: APNSID(high: 1, low: 2), attempts: 3)
        let accepted = PushOutcome.accepted(receipt)
        #expect(accepted.certainty == .accepted && accepted.attempts == 3 && accepted.apnsID == receipt.apnsID)
        #expect(accepted.receipt == receipt && accepted.error == nil && !accepted.canResend)
        #expect(accepted.advice == .none && accepted.status == 200)
        #expect(try accepted.get() == receipt)

        let error = PushError.rejected(
            Rejection(status: 503, reason: .serviceUnavailable, apnsID: receipt.apnsID),
            attempts: 2,
            retryAfter: .seconds(7)
        )
        let failed = PushOutcome.failed(error)
        #expect(failed.certainty == .rejected && failed.attempts == 2 && failed.apnsID == receipt.apnsID)
        #expect(failed.retryAfter == .seconds(7) && failed.canResend && failed.status == 503)
        #expect(throws: error) { try failed.get() }
        #expect(
            error.description.hasPrefix("rejected: 503 ServiceUnavailable: APNs is overloaded or down")
        )
    }

    // MARK: Descriptions

    @Test("An outcome is printed as one readable line, accepted or not")
    func outcomesArePrinted() {
        let id = APNSID(high: 1, low: 2)
        let gone = Rejection(status: 410, reason: .unregistered, apnsID: id)
        let lost = PushError(code: .connectionLost, certainty: .unknown, apnsID: id, message: "the connection ended")
        let lines: [(PushOutcome, String)] = [
            (.accepted(Receipt(apnsID: id)), "accepted [apns-id \(id)]"),
            (.accepted(Receipt(apnsID: id, attempts: 2)), "accepted at attempt 2 [apns-id \(id)]"),
            (.accepted(Receipt(apnsID: id, apnsUniqueID: "u")), "accepted [apns-id \(id), apns-unique-id u]"),
            (
                .failed(.rejected(gone, attempts: 1)),
                "rejected: 410 Unregistered: \(gone.meaning) [apns-id \(id)]"
            ),
            (.failed(lost), "connectionLost (unknown): the connection ended [apns-id \(id)]"),
        ]
        for (outcome, line) in lines { #expect("\(outcome)" == line) }
        #expect("\(gone)" == "410 Unregistered: \(gone.meaning)")
    }

    @Test func aSummaryCountsOutcomesAndPrintsThem() {
        var summary = BulkSummary()
        #expect("\(summary)" == "0 pushes")
        summary.count(.accepted(Receipt(apnsID: .random())))
        #expect("\(summary)" == "1 push: 1 accepted")
        for reason in [RejectionReason.unregistered, .badDeviceToken, .unregistered] {
            summary.count(.failed(.rejected(Rejection(status: 410, reason: reason), attempts: 1)))
        }
        summary.count(.failed(PushError(code: .queueFull, certainty: .notSent, message: "full")))
        #expect(summary.accepted == 1 && summary.rejected == 3 && summary.notSent == 1 && summary.total == 5)
        #expect(summary.rejections == [.unregistered: 2, .badDeviceToken: 1])
        #expect(
            "\(summary)" == "5 pushes: 1 accepted, 3 rejected (2 Unregistered, 1 BadDeviceToken), 1 not sent"
        )
        summary.stopped = PushError(code: .cancelled, certainty: .notSent, message: "the task was cancelled")
        #expect("\(summary)".hasSuffix("1 not sent; stopped: the task was cancelled"))
    }
}
