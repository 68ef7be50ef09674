import APNSModel
import PushQueue

/// Pushes that replace each other (`NewPush.supersedes`).
///
/// Pushes compete if they have the same supersede key, device token, app and environment. A claim decides: of those that
/// compete, at most one is in flight, and the newest of the others replaces the older ones when its turn comes.
extension WriteTransaction {
    /// Whether ``supersede(_:)`` must decide about a due push before it can be claimed.
    func mustSupersede(_ position: Int64) throws -> Bool {
        for text in [Self.newerRivals, Self.olderRivals] {
            let sql = try self.prepared(text)
            sql.bind(1, position)
            if try sql.first({ _ in true }) != nil { return true }
        }
        return false
    }

    /// Settles a due push if there is a newer one, and otherwise the older ones that are not in flight.
    func supersede(_ push: Push) throws {
        let newer = try self.prepared(Self.newerRivals)
        newer.bind(1, push.position)
        if try newer.first({ _ in true }) != nil {
            return try self.settle(push, with: .superseded(push.id, attempts: push.attempts))
        }
        let older = try self.prepared(Self.olderRivals)
        older.bind(1, push.position)
        var positions: [Int64] = []
        try older.forEach { row in
            positions.append(row.int64(0))
            return true
        }
        for position in positions {
            guard let push = try self.push(at: position) else { continue }
            try self.settle(push, with: .superseded(push.id, attempts: push.attempts))
        }
    }

    /// A condition: an older push in flight competes with `push`.
    static let waits = """
        push.supersedes IS NOT NULL AND EXISTS (
            SELECT 1 FROM push AS rival CROSS JOIN flight ON flight.position = rival.position
            WHERE \(rivals(of: "push")) AND rival.position < push.position)
        """

    private static let newerRivals = SQLText(
        """
        SELECT rival.position FROM push AS own CROSS JOIN push AS rival ON \(rivals(of: "own"))
        WHERE own.position = ? AND rival.position > own.position LIMIT 1
        """
    )

    private static let olderRivals = SQLText(
        """
        SELECT rival.position FROM push AS own CROSS JOIN push AS rival ON \(rivals(of: "own"))
        WHERE own.position = ? AND rival.position < own.position
        AND NOT EXISTS (SELECT 1 FROM flight WHERE flight.position = rival.position)
        """
    )

    private static func rivals(of push: String) -> String {
        """
        rival.supersedes = \(push).supersedes AND rival.token = \(push).token AND EXISTS (
            SELECT 1 FROM route AS a CROSS JOIN route AS b ON b.app = a.app AND b.environment = a.environment
            WHERE a.id = \(push).route AND b.id = rival.route)
        """
    }
}
