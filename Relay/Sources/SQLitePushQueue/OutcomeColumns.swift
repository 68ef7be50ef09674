import APNSModel

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The columns that hold an outcome. Several tables have them, always in this order.
enum OutcomeColumns {
    static let names = """
        certainty, sends, response_id, unique_id, code, message, retry_after, status, reason, invalid_since, body, \
        rejection_id, validation
        """
    static let placeholders = "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?"
    private static let count: Int32 = 13

    static func bind(_ outcome: PushOutcome, of id: APNSID, to sql: PreparedSQL, at first: Int32) {
        sql.bind(first, self.code(of: outcome.certainty))
        sql.bind(first + 1, outcome.attempts)
        self.bind(outcome.apnsID, of: id, to: sql, at: first + 2)
        guard let error = outcome.error else {
            sql.bind(first + 3, outcome.receipt?.apnsUniqueID)
            for index in first + 4..<first + self.count { sql.bindNull(index) }
            return
        }
        let rejection = error.rejection
        sql.bind(first + 3, rejection?.apnsUniqueID)
        sql.bind(first + 4, error.code.rawValue)
        sql.bind(first + 5, error.message)
        sql.bind(first + 6, error.retryAfter.map(self.milliseconds))
        sql.bind(first + 7, rejection.map { Int64($0.status) })
        sql.bind(first + 8, rejection?.reason?.rawValue)
        sql.bind(first + 9, rejection?.timestamp)
        if let body = rejection?.rawBody, !body.isEmpty {
            sql.bind(first + 10, body)
        } else {
            sql.bindNull(first + 10)
        }
        self.bind(rejection?.apnsID, of: id, to: sql, at: first + 11)
        sql.bind(first + 12, error.validation.flatMap(self.text))
    }

    static func read(_ sql: PreparedSQL, at first: Int32, of id: APNSID) -> PushOutcome {
        let certainty = self.certainty(sql.int64(first))
        let attempts = sql.count(first + 1)
        let responseID = self.readID(sql, at: first + 2, of: id)
        let uniqueID = sql.optionalText(first + 3)
        guard certainty != .accepted else {
            return .accepted(Receipt(apnsID: responseID ?? id, apnsUniqueID: uniqueID, attempts: attempts))
        }
        var rejection: Rejection?
        if let status = sql.optionalInt64(first + 7) {
            var response = Rejection(
                status: Int(truncatingIfNeeded: status),
                reason: sql.optionalText(first + 8).map(RejectionReason.init(rawValue:)),
                timestamp: sql.optionalInt64(first + 9),
                apnsID: self.readID(sql, at: first + 11, of: id),
                apnsUniqueID: uniqueID
            )
            response.rawBody = sql.bytes(first + 10)
            rejection = response
        }
        return .failed(
            PushError(
                code: PushError.Code(rawValue: sql.text(first + 4)),
                certainty: certainty,
                apnsID: responseID,
                attempts: attempts,
                message: sql.text(first + 5),
                retryAfter: sql.optionalInt64(first + 6).map { .milliseconds($0) },
                rejection: rejection,
                validation: sql.optionalText(first + 12).flatMap(self.validation)
            )
        )
    }

    /// Almost every outcome has the id of its push. This case is stored as NULL to save space. A missing id is stored
    /// as an empty blob.
    private static func bind(_ responseID: APNSID?, of id: APNSID, to sql: PreparedSQL, at index: Int32) {
        if responseID == id {
            sql.bindNull(index)
        } else if let responseID {
            sql.bind(index, responseID)
        } else {
            sql.bind(index, [])
        }
    }

    private static func readID(_ sql: PreparedSQL, at index: Int32, of id: APNSID) -> APNSID? {
        sql.isNull(index) ? id : sql.id(index)
    }

    /// The number of a certainty in the tables. It must never change.
    static func code(of certainty: Certainty) -> Int64 {
        switch certainty {
        case .accepted: 0
        case .rejected: 1
        case .notProcessed: 2
        case .notSent: 3
        case .unknown: 4
        }
    }

    static func certainty(_ code: Int64) -> Certainty {
        switch code {
        case 0: .accepted
        case 1: .rejected
        case 2: .notProcessed
        case 3: .notSent
        default: .unknown
        }
    }

    private static func milliseconds(_ duration: Duration) -> Int64 {
        let (seconds, attoseconds) = duration.components
        let (whole, overflow) = seconds.multipliedReportingOverflow(by: 1_000)
        let (sum, tooFar) = whole.addingReportingOverflow(attoseconds / 1_000_000_000_000_000)
        return overflow || tooFar ? (seconds < 0 ? .min : .max) : sum
    }

    private static func text(_ validation: ValidationError) -> String? {
        (try? JSONEncoder().encode(validation)).map { String(decoding: $0, as: UTF8.self) }
    }

    private static func validation(_ text: String) -> ValidationError? {
        try? JSONDecoder().decode(ValidationError.self, from: Data(text.utf8))
    }
}
