import APNSModel
package import APNSSimulator
import NIOHTTP1

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The HTTP API through which tests and the page read and control a simulator. `Docs/Simulator.md` describes
/// it.
package struct ControlAPI: Sendable {
    let simulator: Simulator
    /// The URL that clients send to.
    let endpoint: String
    /// How to send a push from a shell.
    let commands: [(title: String, command: String)]
    /// The file of the certificate authority that clients must trust.
    let caFile: String
    /// The beginning of a command that sends with curl: what every request needs.
    let curl: String
    /// The accepted names in `host`, in lower case and without port. Any other name could be the domain of a foreign
    /// web page that resolves to this machine (DNS rebinding).
    let hosts: Set<String>
    /// What requests must present; nil for no token.
    let token: String?
    /// The version that the state names.
    let version: String
    /// Milliseconds since 1970.
    let started = Self.now

    /// - Parameters:
    ///   - simulator: The simulator to read and control.
    ///   - endpoint: The URL that clients send to.
    ///   - commands: How to send a push from a shell, for the page.
    ///   - caFile: The file of the certificate authority that clients must trust.
    ///   - curl: The beginning of a command that sends with curl: what every request needs.
    ///   - hosts: The accepted names in `host`, in lower case and without port.
    ///   - token: What requests must present; nil for no token.
    ///   - version: The version that the state names.
    package init(
        simulator: Simulator,
        endpoint: String,
        commands: [(title: String, command: String)],
        caFile: String,
        curl: String,
        hosts: Set<String>,
        token: String?,
        version: String
    ) {
        self.simulator = simulator
        self.endpoint = endpoint
        self.commands = commands
        self.caFile = caFile
        self.curl = curl
        self.hosts = hosts
        self.token = token
        self.version = version
    }

    /// The header that every request that changes something must have. A page of another origin cannot send it, because
    /// the API allows no cross-origin requests.
    static let header = "x-apns-simulator"

    static var now: Int64 { Int64((Date().timeIntervalSince1970 * 1000).rounded()) }

    /// Never throws: an error becomes a response.
    func respond(to head: HTTPRequestHead, body: [UInt8]) async -> ControlResponse {
        do {
            var request = try ControlRequest(head)
            request.body = body
            try self.check(request)
            return try await self.route(request)
        } catch {
            return ControlError(error).response
        }
    }

    // MARK: Security

    private func check(_ request: ControlRequest) throws {
        let host = request.headers["host"]
        guard host.count == 1, self.hosts.contains(Self.name(of: host[0])) else {
            throw ControlError(
                .misdirectedRequest,
                "unknown-host",
                "The header 'host' names another server. Use \(self.hosts.sorted().joined(separator: " or ")), or "
                    + "start the simulator with --name for other names."
            )
        }
        let isFile = Self.file(request) != nil
        if let token, !isFile, !Self.hasToken(token, request) {
            var error = ControlError(
                .unauthorized,
                "unauthorized",
                "Send the header 'authorization: Bearer TOKEN' with the token from --control-token."
            )
            error.headers = [("www-authenticate", "Bearer")]
            throw error
        }
        let changes: [HTTPMethod] = [.POST, .PUT, .PATCH, .DELETE]
        if changes.contains(request.method), request.headers[Self.header].isEmpty {
            throw ControlError(
                .forbidden,
                "header-missing",
                "Add the header '\(Self.header)' with any value, for example '\(Self.header): test'. It proves that "
                    + "the request does not come from a foreign web page."
            )
        }
    }

    /// The name in a `host` field, in lower case and without its port. Empty if it has another form.
    private static func name(of host: String) -> String {
        let host = host.lowercased()
        let name = host.hasPrefix("[") ? host.prefix { $0 != "]" } + "]" : host.prefix { $0 != ":" }
        let rest = host.dropFirst(name.count)
        return rest.isEmpty || rest.hasPrefix(":") ? String(name) : ""
    }

    private static func hasToken(_ token: String, _ request: ControlRequest) -> Bool {
        let fields = request.headers["authorization"]
        guard fields.count == 1, fields[0].lowercased().hasPrefix("bearer ") else { return false }
        let given = Array(fields[0].utf8.dropFirst(7))
        let wanted = Array(token.utf8)
        guard given.count == wanted.count else { return false }
        // Takes equally long wherever the first difference is.
        return zip(given, wanted).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
    }

    // MARK: Routes

    private func route(_ request: ControlRequest) async throws -> ControlResponse {
        if let file = Self.file(request) ?? (request.path == ["openapi.json"] ? ControlPage.openAPI : nil) {
            try self.allow([.GET], request)
            return file
        }
        guard request.path.first == "v1", request.path.count > 1 else { throw self.unknownPath(request) }
        let rest = Array(request.path.dropFirst(2))
        switch request.path[1] {
        case "state" where rest.isEmpty: return try self.state(request)
        case "settings" where rest.isEmpty: return try self.settings(request)
        case "reset" where rest.isEmpty: return try self.reset(request)
        case "pushes" where rest.count <= 1: return try await self.pushes(request, rest.first)
        case "failed-connections" where rest.isEmpty: return try self.failedConnections(request)
        case "events" where rest.isEmpty: return try self.events(request)
        case "ledger" where rest.isEmpty: return try self.ledger(request)
        case "tokens" where rest.count <= 2: return try self.tokens(request, rest)
        case "devices" where rest.count <= 3: return try self.devices(request, rest)
        case "faults" where rest.count <= 1: return try self.faults(request, rest.first)
        default: throw self.unknownPath(request)
        }
    }

    private static func file(_ request: ControlRequest) -> ControlResponse? {
        ControlPage.files["/" + request.path.joined(separator: "/")]
    }

    func unknownPath(_ request: ControlRequest) -> ControlError {
        .notFound("There is nothing at /\(request.path.joined(separator: "/")). See /openapi.json for all paths.")
    }

    /// Throws if the method is not in the list. Where GET is allowed, HEAD is too.
    func allow(_ methods: [HTTPMethod], _ request: ControlRequest) throws {
        if methods.contains(request.method) || (request.method == .HEAD && methods.contains(.GET)) { return }
        let allowed = methods.map(\.rawValue).joined(separator: ", ")
        var error = ControlError(
            .methodNotAllowed,
            "method-not-allowed",
            "\(request.method) is not possible here. The methods of this path are \(allowed)."
        )
        error.headers = [("allow", allowed)]
        throw error
    }

    // MARK: State

    private func state(_ request: ControlRequest) throws -> ControlResponse {
        try self.allow([.GET], request)
        try request.allowQuery([])
        return .json(self.state)
    }

    /// The state of the simulator as a whole.
    var state: JSONObject {
        let counts = self.simulator.counts
        func count(_ outcome: PushRecord.Outcome) -> Int { counts.outcomes[outcome, default: 0] }
        let pushes: JSONObject = [
            "received": counts.outcomes.values.reduce(0, +), "accepted": count(.accepted),
            "rejected": count(.rejected), "noResponse": count(.noResponse), "duplicates": counts.duplicates,
        ]
        let connections: JSONObject = [
            "open": counts.connectionsOpen, "opened": counts.connectionsOpened, "failed": counts.connectionsFailed,
        ]
        let commands: [JSONObject] = self.commands.map { ["title": $0.title, "command": $0.command] }
        var responses = JSONObject()
        for (status, count) in counts.responses.sorted(by: { $0.key < $1.key }) { responses["\(status)"] = count }
        var state: JSONObject = ["endpoint": self.endpoint, "version": self.version]
        state["startedMilliseconds"] = self.started
        state["nowMilliseconds"] = Self.now
        state["counts"] = pushes
        state["commands"] = commands
        state["caFile"] = self.caFile
        state["curl"] = self.curl
        state["responses"] = responses
        state["connections"] = connections
        state["kept"] = counts.kept
        state["keep"] = counts.keep.map { JSONValue.integer(Int64($0)) } ?? .null
        state["dropped"] = counts.dropped
        state["resets"] = counts.resets
        state["lastOrder"] = counts.lastOrder
        state["settings"] = self.settings
        state["faults"] = self.simulator.activeFaults.count
        state["devices"] = counts.devices
        return state
    }

    /// Connections that ended before the client could send a request.
    private func failedConnections(_ request: ControlRequest) throws -> ControlResponse {
        try self.allow([.GET], request)
        try request.allowQuery([])
        let (total, groups) = self.simulator.failedConnections
        let entries: [JSONObject] = groups.map { failed in
            [
                "cause": failed.cause, "message": failed.message, "remedy": failed.remedy(caFile: self.caFile),
                "host": failed.host, "client": failed.client, "faults": failed.faults, "count": failed.count,
                "connection": failed.connection,
                "firstMilliseconds": failed.firstMilliseconds, "lastMilliseconds": failed.lastMilliseconds,
            ]
        }
        return .json(["total": total, "groups": entries] as JSONObject)
    }

    private func reset(_ request: ControlRequest) throws -> ControlResponse {
        try self.allow([.POST], request)
        try request.allowQuery([])
        self.simulator.reset()
        return .noContent
    }
}
