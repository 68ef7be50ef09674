import Foundation

/// A row of a results file, as a program reads it.
struct ResultLine: Decodable {
    var token: String
    var outcome: String
    var status: Int?
    var reason: String?
    var apnsID: String?
    var attempts: Int
    var tokenInvalidSince: Int64?
    var advice: String
    var retryAfterSeconds: Double?
    var line: Int
    var apnsUniqueID: String?

    static func all(_ lines: [String]) throws -> [ResultLine] {
        try lines.map { try JSONDecoder().decode(ResultLine.self, from: Data($0.utf8)) }
    }
}
