/// How many pushes APNs stores for an app while a device is offline. Apple's pages disagree, so the simulator has three
/// rules.
///
/// A broadcast channel has its own rule, the channel's message storage policy.
public enum OfflineStorage: String, Sendable, Hashable, CaseIterable, Encodable {
    /// One push for each topic: the latest. Source: Apple, "Sending notification requests to APNs", which says one for
    /// each bundle ID.
    case latest
    /// Every push. Source: Apple, "User Notifications updates", June 2024, which says several for each bundle ID.
    case all
    /// The latest push of each topic and collapse id. Pushes without a collapse id count as having the same one.
    /// Source: Apple, "User Notifications updates", June 2024, which names `apns-collapse-id` as the way to have several
    /// stored.
    case latestPerCollapseID = "collapse-id"

    /// What APNs stores, for people.
    public var message: String {
        switch self {
        case .latest: "APNs stores one push for each topic, the latest."
        case .all: "APNs stores every push."
        case .latestPerCollapseID:
            "APNs stores the latest push of each topic and collapse id; pushes without a collapse id count as having "
                + "the same one."
        }
    }

    /// The page of Apple's documentation that the rule comes from.
    public var source: String {
        switch self {
        case .latest: ApplePage.sending
        case .all, .latestPerCollapseID: ApplePage.updates
        }
    }

    /// Whether the later of two pushes to tokens of one device replaces the earlier one.
    func replaces(_ earlier: AcceptedPush, by later: AcceptedPush) -> Bool {
        switch self {
        case .latest: earlier.topic == later.topic
        case .all: false
        case .latestPerCollapseID: earlier.topic == later.topic && earlier.collapseID == later.collapseID
        }
    }
}
