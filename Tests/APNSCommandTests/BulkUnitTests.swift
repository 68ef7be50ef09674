import APNSModel
import APNSPool
import Foundation
import TestSupport
import Testing

@testable import APNSCommand

/// The parts of `apns bulk`, without a server.
struct BulkUnitTests {
    private static func rejected(_ reason: RejectionReason) -> PushOutcome {
        .failed(.rejected(Rejection(status: reason.status ?? 0, reason: reason), attempts: 1))
    }

    private static func row(_ token: String, _ certainty: Certainty, _ line: Int) -> ResultRow {
        let outcome: PushOutcome =
            switch certainty {
            case .accepted: .accepted(Receipt(apnsID: .random()))
            case .rejected: Self.rejected(.unregistered)
            default: .failed(PushError(code: .unavailable, certainty: certainty, message: "m"))
            }
        return ResultRow(token: token, outcome: outcome, line: line)
    }

    @Test(arguments: ["00ff", "", "a\"b\\", "\",\"outcome\":\"accepted", "}\u{1}\u{E9}\n"])
    func rowsRoundTrip(token: String) throws {
        for certainty in Certainty.allCases {
            let scan = try #require(RowScan(Array(Self.row(token, certainty, 4711).json.utf8)))
            #expect(scan.outcome == certainty)
            #expect(scan.line == 4711)
            #expect(scan.token == RowScan.fingerprint(of: token))
        }
        let receipt = Receipt(apnsID: .random(), apnsUniqueID: "6f2e0a4d-9b7c")
        let unique = ResultRow(token: token, outcome: .accepted(receipt), line: 4711)
        #expect(RowScan(Array(unique.json.utf8))?.line == 4711)
    }

    @Test func malformedRowsAreRefused() {
        let row = Self.row("00ff", .accepted, 12).json
        for text in [
            "", "{}", "nonsense", String(row.dropLast()), String(row.dropFirst()), row + "}",
            row.replacing("accepted", with: "eaten"), row.replacing(":12,", with: ":,"),
            row.replacing(":12,", with: ":-12,"), row.replacing(":12,", with: ":99999999999999999999,"),
            row.replacing(":null}", with: ":nil}"), row.replacing("advice", with: "apnsID"),
            row.replacing(#","apnsUniqueID":null"#, with: ""), row.replacing(":12,", with: ":12.5,"),
            row.replacing(":12,", with: ":\"12\","), "\"}", "}",
        ] {
            #expect(RowScan(Array(text.utf8)) == nil, "\(text)")
        }
        // A truncated row is not a row.
        for count in 0..<row.utf8.count { #expect(RowScan(Array(row.utf8.prefix(count))) == nil) }
    }

    @Test func theLastRowOfEachInputLineCounts() throws {
        var plain = EarlierResults(resendsUnknown: false)
        var resending = EarlierResults(resendsUnknown: true)
        let rows: [(Certainty, Int)] = [
            (.accepted, 1), (.rejected, 2), (.notSent, 3), (.notProcessed, 5), (.unknown, 6), (.notSent, 7),
            (.accepted, 7), (.unknown, 8),
        ]
        for (certainty, line) in rows {
            let bytes = Array(Self.row("t\(line)", certainty, line).json.utf8)
            try plain.add(bytes)
            try resending.add(bytes)
        }
        func isSkipped(_ results: EarlierResults, _ line: Int) -> Bool {
            if case .skip = results.plan(forLine: line) { return true }
            return false
        }
        #expect((1...10).filter { isSkipped(plain, $0) } == [1, 2, 6, 7, 8])
        #expect((1...10).filter { isSkipped(resending, $0) } == [1, 2, 7])
        #expect(plain.done == 5 && resending.done == 3)
        #expect(plain.hasSuperseded)
        #expect(Self.count(plain, .notSent) == 1)
        #expect(plain.isRow(ofLine: 3, for: "t3") && !plain.isRow(ofLine: 3, for: "t4"))
        #expect(plain.isRow(ofLine: 4, for: "any"))
        #expect(throws: EarlierResults.Mistake.self) { try plain.add(Array("x".utf8)) }
    }

    /// The number of lines whose row has this certainty.
    private static func count(_ results: EarlierResults, _ certainty: Certainty) -> Int {
        results.counts.reduce(0) { $0 + ($1.row.certainty == certainty ? $1.count : 0) }
    }

    @Test("A row with a huge line number costs no memory for the lines before it")
    func hugeLine() throws {
        var results = EarlierResults(resendsUnknown: false)
        for line in [7, Int(Int32.max), 1_000_000_000] {
            try results.add(Array(Self.row("t\(line)", .accepted, line).json.utf8))
            #expect(results.plan(forLine: line) == .skip)
        }
        #expect(results.done == 3)
        var table = LineTable<UInt8>(missing: 0)
        table[1_000_000_000] = 1
        #expect(table.values.reduce(0) { count, _ in count + 1 } == 4096)
        #expect(throws: EarlierResults.Mistake.self) {
            try results.add(Array(Self.row("t", .accepted, 1 << 31).json.utf8))
        }
    }

    private static func failed(_ code: PushError.Code, _ certainty: Certainty) -> PushOutcome {
        .failed(PushError(code: code, certainty: certainty, message: "m"))
    }

    private static let prospects: [(PushOutcome, LineProspect)] = [
        (.accepted(Receipt(apnsID: .random())), .done), (Self.failed(.connectionLost, .unknown), .done),
        (Self.rejected(.unregistered), .done), (Self.rejected(.payloadTooLarge), .done),
        (Self.rejected(.topicDisallowed), .done), (Self.rejected(.badDeviceToken), .misdirected),
        (Self.rejected(.deviceTokenNotForTopic), .misdirected), (Self.rejected(.invalidProviderToken), .remaining),
        (Self.rejected(.expiredProviderToken), .remaining), (Self.rejected(.tooManyProviderTokenUpdates), .remaining),
        (Self.rejected(.tooManyRequests), .remaining), (Self.rejected(.internalServerError), .remaining),
        (Self.rejected(.serviceUnavailable), .remaining), (Self.rejected(.shutdown), .remaining),
        (Self.failed(.unavailable, .notSent), .remaining), (Self.failed(.credential, .notSent), .remaining),
        (Self.failed(.suspectedMisconfiguration, .notSent), .remaining),
        (Self.failed(.goAway, .notProcessed), .remaining),
        (Self.failed(.validation, .notSent), .done), (Self.failed(.expired, .notSent), .done),
    ]

    @Test("A line is resent if its row's advice is that a resend may help, also after a correction")
    func resumableLines() throws {
        for resendsUnknown in [false, true] {
            var results = EarlierResults(resendsUnknown: resendsUnknown)
            for (index, entry) in Self.prospects.enumerated() {
                // Advice in the token's text is ignored.
                let token = #"","advice":"check-environment","#
                try results.add(Array(ResultRow(token: token, outcome: entry.0, line: index + 1).json.utf8))
            }
            for (index, entry) in Self.prospects.enumerated() {
                let isConsented = resendsUnknown && entry.0.certainty == .unknown
                let prospect = isConsented ? .remaining : entry.1
                switch results.plan(forLine: index + 1) {
                case .skip: #expect(prospect == .done, "\(entry.0)")
                case .resend(let row): #expect(row == .init(certainty: entry.0.certainty, prospect: prospect))
                case .send: Issue.record("line \(index + 1) has a row")
                }
            }
            let done = Self.prospects.count { $0.1 == .done } - (resendsUnknown ? 1 : 0)
            #expect(results.done == done)
            for certainty in Certainty.allCases {
                #expect(Self.count(results, certainty) == Self.prospects.count { $0.0.certainty == certainty })
            }
            // The last row counts.
            let line = (Self.prospects.firstIndex { $0.1 == .misdirected } ?? 0) + 1
            let last = ResultRow(token: "00ff", outcome: .accepted(Receipt(apnsID: .random())), line: line)
            try results.add(Array(last.json.utf8))
            #expect(results.done == done + 1)
        }
    }

    @Test("A resend of a push that may have arrived replaces its row only if it proves something")
    func unknownRowsAreKept() {
        var line = TokenLine(token: "00ff", number: 1, earlier: .init(certainty: .unknown, prospect: .remaining))
        for (outcome, prospect) in Self.prospects {
            let isProof = outcome.certainty >= .unknown || outcome.certainty == .rejected && prospect == .done
            #expect(line.keepsRow(after: outcome) == !isProof, "\(outcome)")
        }
        line.earlier = .init(certainty: .rejected, prospect: .remaining)
        #expect(!Self.prospects.contains { line.keepsRow(after: $0.0) })
        line.earlier = nil
        #expect(!Self.prospects.contains { line.keepsRow(after: $0.0) })
    }

    @Test("Device tokens that were rejected before do not stop a run, unless nothing was ever accepted")
    func widenedLimits() throws {
        var results = EarlierResults(resendsUnknown: false)
        for line in 1...30 {
            let row = ResultRow(token: "t", outcome: Self.rejected(.badDeviceToken), line: line)
            try results.add(Array(row.json.utf8))
        }
        let limits = MassRejectionLimits(window: 200, rejections: 150)
        #expect(results.widened(limits) == limits)
        try results.add(Array(Self.row("t", .accepted, 31).json.utf8))
        #expect(results.widened(limits) == MassRejectionLimits(window: 230, rejections: 180))
        #expect(results.widened(.off) == .off)
    }

    @Test func aLineKeepsItsIDWithinARunOnly() {
        let runs = [APNSID.random(), .random(), APNSID(high: 0, low: .max)]
        for run in runs {
            let ids = (1...10_000).map { BulkJobManifest.apnsID(run: run, line: $0) }
            #expect(Set(ids).count == ids.count)
            #expect(ids == (1...10_000).map { BulkJobManifest.apnsID(run: run, line: $0) })
            // RFC 9562, section 4.1: the variant.
            #expect(ids.allSatisfy { $0.low >> 62 == 2 })
        }
        #expect(BulkJobManifest.apnsID(run: runs[0], line: 1) != BulkJobManifest.apnsID(run: runs[1], line: 1))
    }

    @Test(arguments: [1, 2, 3, 5, 64])
    func linesAreAssembledFromPieces(size: Int) throws {
        let text = Array("one\n\ntwo\nthree".utf8)
        var pieces = LinePieces()
        var lines: [String] = []
        var position = 0
        while position < text.count {
            let end = min(position + size, text.count)
            try pieces.add(text[position..<end]) { lines.append(String(decoding: $0, as: UTF8.self)) }
            position = end
        }
        #expect(lines == ["one", "", "two"])
        #expect(pieces.complete == 9 && pieces.total == 14)
    }

    @Test(arguments: [
        ("", 0), ("\n\n", 0), ("a", 1), ("a\n", 1), ("a\nb", 2), ("\na\n\nb\n", 2), ("\r\n \t\r\na\r\n\r\n", 1),
        (" a \n ", 1),
    ])
    func linesAreCounted(text: String, count: Int) {
        for size in [1, 2, 100] {
            var lines = LineCount()
            let bytes = Array(text.utf8)
            var position = 0
            while position < bytes.count {
                let end = min(position + size, bytes.count)
                bytes[position..<end].withUnsafeBytes { lines.add($0) }
                position = end
            }
            #expect(lines.total == count)
        }
    }

    @Test("Fewer rows than a write covers are kept, until they are flushed")
    func writer() throws {
        let folder = try Folder()
        let path = try folder.write("", to: "rows")
        let descriptor = try Files.openForAppending(path, reads: true).get()
        defer { SystemFile.close(descriptor) }
        let writer = ResultWriter(path: path, descriptor: descriptor, capacity: 3)
        let expected = [0, 0, 3, 3, 3, 6, 6]
        for (number, lines) in expected.enumerated() {
            writer.write(Self.row("t", .accepted, number + 1))
            #expect(folder.lines(of: "rows").count == lines)
        }
        writer.flush()
        #expect(try folder.lines(of: "rows").map { try #require(RowScan(Array($0.utf8))).line } == Array(1...7))
        #expect(writer.failure == nil)
        let readOnly = try Files.open(path).get()
        defer { SystemFile.close(readOnly) }
        let failing = ResultWriter(path: path, descriptor: readOnly, capacity: 1)
        failing.write(Self.row("t", .accepted, 8))
        #expect(failing.failure?.description.contains(path) == true)
        #expect(folder.lines(of: "rows").count == 7)
    }
}
