import APNSModel
import PushQueue

/// The columns that hold an outcome. Several tables have them, always in this order.
enum OutcomeColumns {
    static let names = "certainty, sends, result"
    static let placeholders = "?, ?, ?"

    static func bind(_ outcome: StoredOutcome, to sql: PreparedSQL, at first: Int32) {
        sql.bind(first, outcome.certainty.storedNumber)
        sql.bind(first + 1, outcome.sends)
        sql.bind(first + 2, outcome.result.map { String(decoding: $0, as: UTF8.self) })
    }

    static func read(_ sql: PreparedSQL, at first: Int32, of id: APNSID) -> PushOutcome {
        let result = sql.isNull(first + 2) ? nil : sql.bytes(first + 2)
        return StoredOutcome.outcome(sends: sql.count(first + 1), result: result, of: id)
    }
}
