import APNSModel
import APNSSimulator
import NIOHTTP1

/// The states of device tokens.
extension ControlAPI {
    /// The states of device tokens by their names in requests.
    enum State: String, CaseIterable {
        case active, unregistered, expired
        case otherEnvironment = "other-environment"
        case otherTopic = "other-topic"
        case busy

        init(_ state: DeviceTokenState) {
            switch state {
            case .valid: self = .active
            case .unregistered: self = .unregistered
            case .expired: self = .expired
            case .bad: self = .otherEnvironment
            case .notForTopic: self = .otherTopic
            case .busy: self = .busy
            }
        }

        func value(since milliseconds: Int64) -> DeviceTokenState {
            switch self {
            case .active: .valid
            case .unregistered: .unregistered(sinceMilliseconds: milliseconds)
            case .expired: .expired(sinceMilliseconds: milliseconds)
            case .otherEnvironment: .bad
            case .otherTopic: .notForTopic
            case .busy: .busy
            }
        }
    }

    /// The maximum number of tokens that have a state.
    private static let limit = 100_000

    func tokens(_ request: ControlRequest, _ path: [String]) throws -> ControlResponse {
        try request.allowQuery([])
        guard let token = path.first else {
            try self.allow([.GET], request)
            let states = self.simulator.tokenStates.sorted { $0.key < $1.key }
            return .json(["tokens": states.map { Self.entry($0.key, $0.value) }])
        }
        try Self.check(token)
        if path.count == 2 {
            guard path[1] == "device" else { throw self.unknownPath(request) }
            try self.allow([.GET], request)
            return .json(self.simulator.snapshot(ofToken: token))
        }
        try self.allow([.PUT, .DELETE], request)
        if request.method == .DELETE {
            self.simulator.setToken(token, .valid)
            return .noContent
        }
        let state = try Self.state(in: request)
        let states = self.simulator.tokenStates
        guard states.count < Self.limit || states[token.lowercased()] != nil else {
            throw ControlError(
                .conflict,
                "limit-reached",
                "\(Self.limit) tokens have a state. Delete some, or call /v1/reset."
            )
        }
        self.simulator.setToken(token, state)
        return .json(Self.entry(token.lowercased(), state))
    }

    private static func state(in request: ControlRequest) throws -> DeviceTokenState {
        let object = try request.object(["state", "sinceMilliseconds"])
        let since = try object.read("sinceMilliseconds", .integer(in: 0...Int64.max)) ?? Self.now
        guard let state: State = try object.read("state", .choice) else {
            let values = State.allCases.map(\.rawValue).joined(separator: ", ")
            throw object.error("state", "expected one of \(values)")
        }
        return state.value(since: since)
    }

    /// Throws unless the text is hexadecimal: APNs rejects all others before it looks at a token's state.
    static func check(_ token: String) throws {
        do {
            _ = try DeviceToken(token)
        } catch {
            throw ControlError.invalid("'\(token.prefix(80))' is not a device token: \(error)")
        }
    }

    private static func entry(_ token: String, _ state: DeviceTokenState) -> JSONObject {
        var entry: JSONObject = ["token": token, "state": State(state).rawValue]
        switch state {
        case .unregistered(let since), .expired(let since): entry["sinceMilliseconds"] = since
        default: break
        }
        return entry
    }
}
