@_spi(Relay) import APNSModel
import Crypto
import PushQueue

/// Parses what a caller submits as a batch: one JSON object, and then the devices, each on a line of its own or as an element
/// of the object's member `tokens`.
struct BatchIntake: Sendable {
    /// The member that only batches have.
    private enum Member: String {
        case name, values, pushesPerSecond, tokens
    }

    /// A batch as it was submitted.
    struct Submission: Sendable {
        var batch: Batch
        var pushesPerSecond: Double?
        /// The elements of `tokens`, as JSON text; nil if there is no such member.
        var devices: [[UInt8]]?
    }

    private let batch: Batch
    private let template: PayloadTemplate
    private let defaults: PlaceholderValues
    private let constant: [UInt8]?

    /// - Throws: `PushFault` if a value of the batch is invalid.
    init(_ batch: Batch) throws(PushFault) {
        self.batch = batch
        self.template = try PayloadTemplate(Array(batch.payload.utf8))
        self.defaults = try PlaceholderValues(Array(batch.values.utf8))
        self.constant = self.template.isConstant ? try self.template.payload(.none, defaults: .none) : nil
    }

    // MARK: The object

    /// Parses the object.
    ///
    /// - Parameters:
    ///   - text: the text of the object.
    ///   - parser: parses what a batch has in common with a push.
    static func submission(_ text: ArraySlice<UInt8>, _ parser: PushParser) throws(PushFault) -> Submission {
        try text.withUnsafeBufferPointer { (bytes) throws(PushFault) in try Self.submission(bytes, parser) }
    }

    private static func submission(
        _ bytes: UnsafeBufferPointer<UInt8>,
        _ parser: PushParser
    ) throws(PushFault) -> Submission {
        var parser = parser
        var scanner = JSONScanner(bytes)
        var members: [JSONScanner.Member] = []
        do {
            try scanner.object(into: &members)
        } catch {
            throw PushFault(.badJSON, nil, "invalid JSON at byte \(error.offset + 1): \(error)")
        }
        var own: [Member: JSONScanner.Slice] = [:]
        // The other members, and a device token in place of those of the devices, are a push.
        var push = Array(#"{"token":"00""#.utf8)
        var headers: JSONScanner.Slice?
        for member in members {
            let name = scanner.text(member.key)
            if let known = Member(rawValue: name) {
                guard own.updateValue(member.value, forKey: known) == nil else {
                    throw .invalid(name, "this member must occur only once")
                }
                continue
            }
            guard name != "token", name != "supersedes" else {
                throw .invalid(name, "a batch has no such member")
            }
            if name == "headers" { headers = member.value }
            push.append(UInt8(ascii: ","))
            push += bytes[member.key.range]
            push.append(UInt8(ascii: ":"))
            push += bytes[member.value.range]
        }
        push.append(UInt8(ascii: "}"))
        let values = own[.values].map { Array(bytes[$0.range]) } ?? Array("{}".utf8)
        guard values.count <= Self.maximumValuesBytes else {
            throw .invalid("values", "expected at most \(Self.maximumValuesBytes) bytes")
        }
        _ = try PlaceholderValues(values)
        let parsed = try push.withUnsafeBufferPointer { (bytes) throws(PushFault) in
            try parser.parse(bytes, in: 0..<bytes.count)
        }
        guard try headers.map({ slice throws(PushFault) in try PushHeaders(slice, scanner).id }) == .some(nil) else {
            throw .invalid("headers.apns-id", "the pushes of a batch have ids of their own")
        }
        guard parsed.route.lane == .bulk else { throw .invalid("lane", "the lane of a batch is bulk") }
        try Self.checkPlaceholders(parsed)
        let batch = Batch(
            id: Batch.newID(at: parser.now),
            name: try own[.name].map { slice throws(PushFault) in try Self.name(slice, scanner) },
            caller: parsed.route.caller,
            app: parsed.route.app,
            environment: parsed.route.environment,
            topic: parsed.push.topic,
            pushType: parsed.push.pushType.rawValue,
            priority: parsed.push.priority?.rawValue,
            expiration: parsed.push.expiration.headerValue,
            collapseID: parsed.push.collapseID?.rawValue,
            payload: String(decoding: parsed.push.payload, as: UTF8.self),
            values: String(decoding: values, as: UTF8.self),
            metadata: parsed.metadata,
            resendsUnknown: parsed.resendsUnknown,
            createdAt: parser.now.millisecondsSince1970,
            notBefore: parsed.notBefore.millisecondsSince1970,
            deadline: parsed.deadline.millisecondsSince1970,
            idempotencyKey: parsed.idempotency?.key,
            digest: Array(SHA256.hash(data: (parsed.idempotency?.digest ?? []) + values))
        )
        return Submission(
            batch: batch,
            pushesPerSecond: try own[.pushesPerSecond].map { slice throws(PushFault) in try Self.rate(slice, scanner) },
            devices: try own[.tokens].map { slice throws(PushFault) in try Self.elements(slice, scanner) }
        )
    }

    /// Checks that two braces are placeholders, wherever the batch has them.
    private static func checkPlaceholders(_ push: NewPush) throws(PushFault) {
        _ = try PayloadTemplate(push.push.payload)
        if let id = push.push.collapseID, PayloadTemplate.hasBraces(id.rawValue) {
            throw .invalid("headers.apns-collapse-id", "placeholders are replaced in the payload only")
        }
        if let metadata = push.metadata, PayloadTemplate.hasBraces(metadata) {
            throw .invalid(
                "metadata",
                "placeholders are replaced in the payload only; give each device its own metadata"
            )
        }
    }

    /// The value of `name`.
    private static func name(_ slice: JSONScanner.Slice, _ scanner: JSONScanner) throws(PushFault) -> String {
        let name = slice.kind == .string ? scanner.text(slice) : ""
        guard Self.isName(name) else {
            throw .invalid(
                "name",
                "expected a string of 1 to \(Self.maximumNameBytes) bytes without control characters"
            )
        }
        return name
    }

    /// Whether a text may be the name of a batch.
    static func isName(_ text: String) -> Bool {
        (1...Self.maximumNameBytes).contains(text.utf8.count) && text.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F }
    }

    private static let maximumNameBytes = 128

    /// The value of `pushesPerSecond`.
    static func rate(_ slice: JSONScanner.Slice, _ scanner: JSONScanner) throws(PushFault) -> Double {
        guard slice.kind == .number, let rate = Double(scanner.text(slice)), Self.rates.contains(rate) else {
            throw .invalid("pushesPerSecond", "expected a number from 0.01 to 1,000,000")
        }
        return rate
    }

    /// The maximum length of the values of a batch, and of those of a device, in bytes.
    private static let maximumValuesBytes = 65_536
    private static let maximumDeviceValuesBytes = 4_096

    private static let rates = 0.01...1_000_000.0

    private static func elements(_ slice: JSONScanner.Slice, _ scanner: JSONScanner) throws(PushFault) -> [[UInt8]] {
        guard slice.kind == .array else { throw .invalid("tokens", "expected an array") }
        var inner = JSONScanner(scanner.bytes, in: slice.range)
        var elements: [JSONScanner.Slice] = []
        do {
            guard try inner.array(into: &elements, limit: PushBody.maximumPushes) else {
                throw PushFault.invalid(
                    "tokens",
                    "expected at most \(PushBody.maximumPushes) elements; submit more as application/x-ndjson"
                )
            }
        } catch let fault as PushFault {
            throw fault
        } catch {
            throw PushFault(.badJSON, "tokens", "\(error)")
        }
        return elements.map { Array(scanner.bytes[$0.range]) }
    }

    // MARK: Devices

    /// Parses a device: its token as a string, or an object with `token`, `values` and `metadata`.
    ///
    /// - Parameters:
    ///   - bytes: the device as JSON text.
    ///   - number: the number of the device in the batch, counted from 1.
    func push(_ bytes: UnsafeBufferPointer<UInt8>, number: Int) throws(PushFault) -> NewPush {
        guard bytes.count <= PushParser.longestPush else {
            throw .invalid("token", "the line has \(bytes.count) bytes; expected at most \(PushParser.longestPush)")
        }
        var scanner = JSONScanner(bytes)
        let text: String
        var values = ArraySlice("{}".utf8)
        var metadata = self.batch.metadata
        var device = PlaceholderValues.none
        do {
            let slice = try scanner.document()
            switch slice.kind {
            case .string: text = scanner.text(slice)
            case .object:
                let members = try Self.members(bytes, slice.range)
                guard let token = members["token"], token.kind == .string else {
                    throw PushFault.invalid("token", "expected a string")
                }
                text = scanner.text(token)
                if let slice = members["values"] {
                    guard slice.range.count <= Self.maximumDeviceValuesBytes else {
                        throw PushFault.invalid("values", "expected at most \(Self.maximumDeviceValuesBytes) bytes")
                    }
                    device = try PlaceholderValues(bytes, in: slice.range)
                    values = ArraySlice(bytes[slice.range])
                }
                if let slice = members["metadata"] { metadata = try PushParser.metadata(slice, scanner) }
            default: throw PushFault.invalid("token", "expected a string or an object")
            }
        } catch let error as JSONScanner.Failure {
            throw PushFault(.badJSON, nil, "invalid JSON at byte \(error.offset + 1): \(error)")
        } catch let error as PushFault {
            throw error
        } catch {
            throw PushFault(.badJSON, nil, "\(error)")
        }
        do {
            if self.constant == nil {
                // The size of each payload is checked before anything is stored.
                let payload = try self.template.payload(device, defaults: self.defaults)
                _ = try self.batch.push(payload, skippingValidation: false)
            }
            return NewPush(
                id: self.batch.id(ofLine: number),
                route: self.batch.route,
                token: try DeviceToken(text),
                push: try self.batch.push(Array(values), skippingValidation: true),
                notBefore: QueueTime(millisecondsSince1970: self.batch.notBefore),
                deadline: QueueTime(millisecondsSince1970: self.batch.deadline),
                resendsUnknown: self.batch.resendsUnknown,
                metadata: metadata
            )
        } catch let error as PushFault {
            throw error
        } catch let error as ValidationError {
            throw PushParser.fault(error)
        } catch {
            throw PushFault(.invalidPush, nil, "\(error)")
        }
    }

    private static func members(
        _ bytes: UnsafeBufferPointer<UInt8>,
        _ range: Range<Int>
    ) throws -> [String: JSONScanner.Slice] {
        var scanner = JSONScanner(bytes, in: range)
        var members: [JSONScanner.Member] = []
        try scanner.object(into: &members)
        var found: [String: JSONScanner.Slice] = [:]
        for member in members {
            let name = scanner.text(member.key)
            guard ["token", "values", "metadata"].contains(name) else {
                throw PushFault.invalid(printable(name), "unknown member; expected only token, values, metadata")
            }
            guard found.updateValue(member.value, forKey: name) == nil else {
                throw PushFault.invalid(name, "this member must occur only once")
            }
        }
        return found
    }
}
