import APNSModel
import NATSPushQueue
import PushQueue

extension OutcomeMessage {
    /// The message of an outcome. The body is that of the HTTP API's feed.
    init(_ entry: FeedEntry) {
        let outcome = entry.push.outcome
        self.init(
            cursor: entry.cursor.position,
            app: entry.push.route.app,
            kind: outcome?.invalidation == nil
                ? (outcome?.certainty ?? .unknown).rawValue : OutcomeMessage.invalidTokenKind,
            body: StoredJSON.encode(PushStatusJSON(entry.push, cursor: entry.cursor))
        )
    }

    /// The kind of an outcome that invalidates the device token. That of all others is their certainty.
    static let invalidTokenKind = "invalidToken"
}
