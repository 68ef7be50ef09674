/// A right of a caller, for the apps that it may use.
public enum Role: String, Sendable, Hashable, CaseIterable {
    /// To submit pushes.
    case send
    /// To read the status and the outcomes of the pushes that it submitted itself.
    case read
    /// To read the status and the outcomes of all pushes.
    case readAll
    /// To cancel pushes that it submitted itself.
    case cancel
    /// To cancel any push.
    case cancelAll
    /// To register, list and delete subscriptions for Web Push, and to replace their device tokens.
    case subscribe
    /// To use the overview, parked pushes, requests to webhooks, the clock, the settings of the fleet, and reloading. It
    /// includes all other roles.
    case operate

    /// The roles of a caller whose settings name none.
    public static let standard: Set<Role> = [.send, .read, .cancel]
}
