@_spi(Relay) import APNSModel
import APNSPool
import PushQueue

/// Parses the JSON text of a push into a ``PushQueue/NewPush``, or throws a fault that names the wrong member.
///
/// Make one parser for each request. The bytes of the payload are not changed.
struct PushParser {
    /// The maximum length of an idempotency key or a `supersedes` key, in bytes.
    static let maximumKeyBytes = 128
    /// The maximum length of the metadata's text, in bytes.
    static let maximumMetadataBytes = 512

    let apps: [String: RelayApp]
    let caller: Caller
    /// The lane of pushes without a lane.
    let defaultLane: PushLane
    let dispatch: DispatchSettings
    let now: QueueTime
    let ids: PushIDGenerator
    /// The idempotency key of pushes that have none, from the header of the request.
    var requestKey: String?
    private var members: [JSONScanner.Member] = []

    init(
        apps: [String: RelayApp],
        caller: Caller,
        defaultLane: PushLane,
        dispatch: DispatchSettings,
        now: QueueTime,
        ids: PushIDGenerator,
        requestKey: String? = nil
    ) {
        self.apps = apps
        self.caller = caller
        self.defaultLane = defaultLane
        self.dispatch = dispatch
        self.now = now
        self.ids = ids
        self.requestKey = requestKey
    }

    /// The maximum length of a push's text, in bytes. The largest payload with all other members is much smaller.
    static let longestPush = 65_536

    /// The members of a push.
    private enum Field: String, CaseIterable {
        case app, environment, token, headers, payload, idempotencyKey, notBefore, deadline, lane, supersedes
        case resendUnknown, metadata
    }

    /// Parses one push.
    ///
    /// - Parameters:
    ///   - bytes: the buffer that contains the push.
    ///   - range: the range of the push in the buffer.
    mutating func parse(
        _ bytes: UnsafeBufferPointer<UInt8>,
        in range: Range<Int>
    ) throws(PushFault) -> NewPush {
        guard range.count <= Self.longestPush else {
            throw PushFault(
                .invalidPush,
                nil,
                "the push has \(range.count) bytes; expected at most \(Self.longestPush)"
            )
        }
        var scanner = JSONScanner(bytes, in: range)
        self.members.removeAll(keepingCapacity: true)
        do {
            try scanner.object(into: &self.members)
        } catch {
            let place = error.offset - range.lowerBound + 1
            throw PushFault(.badJSON, nil, "invalid JSON at byte \(place): \(error)")
        }
        return try self.push(try self.fields(scanner), scanner)
    }

    /// The members by their keys.
    private func fields(_ scanner: JSONScanner) throws(PushFault) -> Fields {
        var fields = Fields()
        for member in self.members {
            let key = scanner.text(member.key)
            guard let field = Field(rawValue: key) else {
                throw .invalid(
                    printable(key),
                    "unknown member; expected only \(Field.allCases.map(\.rawValue).joined(separator: ", "))"
                )
            }
            guard fields[field] == nil else { throw .invalid(key, "this member must occur only once") }
            fields[field] = member.value
        }
        return fields
    }

    /// The values of the members that are present.
    private struct Fields {
        private var values: [JSONScanner.Slice?] = Array(repeating: nil, count: Field.allCases.count)

        subscript(field: Field) -> JSONScanner.Slice? {
            get { self.values[Self.index(field)] }
            set { self.values[Self.index(field)] = newValue }
        }

        private static func index(_ field: Field) -> Int {
            switch field {
            case .app: 0
            case .environment: 1
            case .token: 2
            case .headers: 3
            case .payload: 4
            case .idempotencyKey: 5
            case .notBefore: 6
            case .deadline: 7
            case .lane: 8
            case .supersedes: 9
            case .resendUnknown: 10
            case .metadata: 11
            }
        }
    }

    private func push(_ fields: Fields, _ scanner: JSONScanner) throws(PushFault) -> NewPush {
        let app = try self.app(fields, scanner)
        let route = Route(
            app: app.name,
            environment: try self.environment(of: app, fields, scanner),
            lane: try self.lane(fields, scanner),
            caller: self.caller.name
        )
        guard let tokenText = try self.string(.token, fields, scanner) else { throw Self.missing(.token) }
        guard let headersSlice = fields[.headers] else { throw Self.missing(.headers) }
        let headers = try PushHeaders(headersSlice, scanner)
        guard let payload = fields[.payload] else { throw Self.missing(.payload) }
        guard payload.kind == .object else { throw .invalid("payload", "expected a JSON object") }

        let token: DeviceToken
        let prepared: PreparedPush
        do {
            token = try DeviceToken(tokenText)
            prepared = try headers.push(for: app, payload: Array(scanner.bytes[payload.range]))
        } catch {
            throw Self.fault(error)
        }
        let times = try self.times(fields, scanner)
        let supersedes = try self.key(.supersedes, fields, scanner)
        let resendsUnknown = try self.bool(.resendUnknown, fields, scanner)
        let key = try self.key(.idempotencyKey, fields, scanner) ?? self.requestKey
        let metadata = try fields[.metadata].map { slice throws(PushFault) in try Self.metadata(slice, scanner) }
        // With a key, the push may be a repetition whose deadline has passed. Without one, a past deadline is an error.
        if let deadline = times.deadline, deadline <= self.now, key == nil, headers.id == nil {
            throw .invalid("deadline", "expected a time in the future")
        }
        var push = NewPush(
            id: headers.id ?? self.ids.next(at: self.now),
            route: route,
            token: token,
            push: prepared,
            notBefore: max(times.notBefore ?? self.now, self.now),
            deadline: times.deadline ?? self.now.advanced(by: self.dispatch.defaultDeadline),
            resendsUnknown: resendsUnknown ?? false,
            supersedes: supersedes.map { SupersedeKey($0) },
            metadata: metadata
        )
        if let key = key ?? headers.id?.description {
            push.idempotency = IdempotencyKey(
                key: key,
                digest: PushDigest(
                    push,
                    environment: fields[.environment].map(scanner.text),
                    lane: fields[.lane].map(scanner.text),
                    topic: headers.topic,
                    id: headers.id,
                    notBefore: times.notBefore,
                    deadline: times.deadline
                ).bytes
            )
        }
        return push
    }

    static func metadata(_ slice: JSONScanner.Slice, _ scanner: JSONScanner) throws(PushFault) -> String {
        guard slice.kind == .object, slice.range.count <= Self.maximumMetadataBytes else {
            throw .invalid("metadata", "expected a JSON object of at most \(Self.maximumMetadataBytes) bytes")
        }
        return String(decoding: scanner.bytes[slice.range], as: UTF8.self)
    }

    private func app(_ fields: Fields, _ scanner: JSONScanner) throws(PushFault) -> RelayApp {
        guard let name = try self.string(.app, fields, scanner) else { throw Self.missing(.app) }
        // This comes before the look-up, so that a caller cannot find out which other apps exist.
        guard self.caller.maySend(to: name) else {
            throw PushFault(.forbidden, "app", "this caller may not send to the app \(printable(name))")
        }
        guard let app = self.apps[name] else {
            let names = self.apps.keys.filter { self.caller.maySend(to: $0) }.sorted()
            throw .invalid(
                "app",
                names.isEmpty
                    ? "the settings list no app" : "unknown app; expected one of \(names.joined(separator: ", "))"
            )
        }
        return app
    }

    private func environment(
        of app: RelayApp,
        _ fields: Fields,
        _ scanner: JSONScanner
    ) throws(PushFault) -> String {
        let names = app.environments.keys.sorted().joined(separator: ", ")
        guard let name = try self.string(.environment, fields, scanner) else {
            guard let name = app.defaultEnvironment else {
                throw .invalid("environment", "this member is missing; expected one of \(names)")
            }
            return name
        }
        guard app.environments[name] != nil else {
            throw .invalid("environment", "the app has no such environment; expected one of \(names)")
        }
        return name
    }

    private func lane(_ fields: Fields, _ scanner: JSONScanner) throws(PushFault) -> PushLane {
        switch try self.string(.lane, fields, scanner) {
        case nil: return self.defaultLane
        case "interactive": return .interactive
        case "bulk": return .bulk
        default: throw .invalid("lane", "expected interactive or bulk")
        }
    }

    private func times(
        _ fields: Fields,
        _ scanner: JSONScanner
    ) throws(PushFault) -> (notBefore: QueueTime?, deadline: QueueTime?) {
        let notBefore = try self.time(.notBefore, fields, scanner)
        let deadline = try self.time(.deadline, fields, scanner)
        if let notBefore, notBefore >= deadline ?? self.now.advanced(by: self.dispatch.defaultDeadline) {
            let hint = deadline == nil ? "; the default deadline is before notBefore, so set a deadline" : ""
            throw .invalid("notBefore", "expected a time before the deadline\(hint)")
        }
        return (notBefore, deadline)
    }

    private func time(
        _ field: Field,
        _ fields: Fields,
        _ scanner: JSONScanner
    ) throws(PushFault) -> QueueTime? {
        guard let slice = fields[field] else { return nil }
        guard slice.kind == .number, let seconds = Double(scanner.text(slice)), seconds >= 0 else {
            throw .invalid(field.rawValue, "expected a number of seconds since 1970")
        }
        let latest = self.now.advanced(by: self.dispatch.maxDeadline)
        guard let milliseconds = Int64(exactly: (seconds * 1_000).rounded(.down)),
            milliseconds <= latest.millisecondsSince1970
        else {
            throw .invalid(
                field.rawValue,
                "expected a time in seconds since 1970, at most \(self.dispatch.maxDeadline) from now"
            )
        }
        return QueueTime(millisecondsSince1970: milliseconds)
    }

    private func key(_ field: Field, _ fields: Fields, _ scanner: JSONScanner) throws(PushFault) -> String? {
        guard let text = try self.string(field, fields, scanner) else { return nil }
        guard (1...Self.maximumKeyBytes).contains(text.utf8.count),
            !text.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F })
        else {
            throw .invalid(
                field.rawValue,
                "expected 1 to \(Self.maximumKeyBytes) bytes of UTF-8 without control characters"
            )
        }
        return text
    }

    private func string(_ field: Field, _ fields: Fields, _ scanner: JSONScanner) throws(PushFault) -> String? {
        guard let slice = fields[field] else { return nil }
        guard slice.kind == .string else { throw .invalid(field.rawValue, "expected a string") }
        return scanner.text(slice)
    }

    private func bool(_ field: Field, _ fields: Fields, _ scanner: JSONScanner) throws(PushFault) -> Bool? {
        guard let slice = fields[field] else { return nil }
        guard slice.kind == .bool else { throw .invalid(field.rawValue, "expected true or false") }
        return scanner.bytes[slice.range.lowerBound] == UInt8(ascii: "t")
    }

    private static func missing(_ field: Field) -> PushFault {
        .invalid(field.rawValue, "this member is missing")
    }

    /// Converts an error of the library's validation. Its field is a header or the device token.
    static func fault(_ error: ValidationError) -> PushFault {
        switch error.field {
        case "device token": .invalid("token", error.description)
        case let field where field.hasPrefix("apns-"): .invalid("headers.\(field)", error.description)
        default: .invalid(error.field, error.description)
        }
    }
}
