/// Decides who may register, list, change and delete subscriptions.
protocol RegistrationVerifier: Sendable {
    /// Whether the endpoints need a caller's token.
    var access: GatewayRoute.Access { get }

    /// Finds out whose request it is.
    ///
    /// - Parameters:
    ///   - body: the body of the request; empty if it has none.
    ///   - addsSubscription: whether the request registers a subscription, which its attested key then owns.
    /// - Throws: ``GatewayError``: `unauthorized` or `forbidden` if the request does not prove it.
    func verify(_ request: any GatewayRequest, body: [UInt8], addsSubscription: Bool) async throws -> Registrant
}

/// Who registers subscriptions.
enum Registrant: Sendable, Hashable {
    /// The backend of an app, for all subscriptions of its apps.
    case caller(GatewayCaller)
    /// A device with an attested key, for its own subscriptions.
    case device(key: String, app: String, environment: String)

    /// The attested key to which a new subscription belongs; nil if it belongs to no device.
    var owner: String? {
        guard case .device(let key, _, _) = self else { return nil }
        return key
    }

    func mayUse(_ app: String) -> Bool {
        switch self {
        case .caller(let caller): caller.apps?.contains(app) ?? true
        case .device(_, let own, _): app == own
        }
    }

    func mayUse(_ app: String, in environment: String) -> Bool {
        guard case .device(_, _, let own) = self else { return self.mayUse(app) }
        return self.mayUse(app) && environment == own
    }

    /// Whether it may list, change and delete a subscription.
    func mayChange(_ subscription: Subscription) -> Bool {
        self.mayUse(subscription.app) && (self.owner == nil || self.owner == subscription.owner)
    }

    /// A name for messages.
    var name: String {
        switch self {
        case .caller(let caller): "The caller \(caller.name)"
        case .device: "This key"
        }
    }
}

/// Callers with the role `subscribe` register devices.
struct CallerRegistration: RegistrationVerifier {
    var access: GatewayRoute.Access { .registrars }

    func verify(_ request: any GatewayRequest, body: [UInt8], addsSubscription: Bool) async throws -> Registrant {
        .caller(request.caller)
    }
}

/// Everybody who can reach the relay registers devices. For tests, on loopback addresses only.
struct OpenRegistration: RegistrationVerifier {
    var access: GatewayRoute.Access { .open }

    func verify(_ request: any GatewayRequest, body: [UInt8], addsSubscription: Bool) async throws -> Registrant {
        .caller(request.caller)
    }
}
