import APNSModel
import PushQueue

/// The pushes in the body of a request: one JSON object, or one on each line (NDJSON).
///
/// The body is parsed in portions, so that the thread can do other work between them.
struct PushBody {
    /// The maximum number of pushes in one request.
    static let maximumPushes = NewPush.maximumPerCall

    enum Format {
        /// One push.
        case json
        /// One push a line. Blank lines are skipped.
        case lines
    }

    /// The progress of parsing a body.
    enum Progress: Hashable {
        case unfinished
        case finished
        /// There are more pushes than one request may have.
        case tooMany
    }

    private let format: Format
    /// Whether to continue after a faulty push.
    private let isPartial: Bool
    /// The idempotency key of the request. In lines, the key of a push is this key, a slash and the number of its line.
    private let key: String?
    private var parser: PushParser
    private var position = 0
    private var line = 0

    /// The valid pushes. `lines` has the line of each.
    private(set) var pushes: [NewPush] = []
    private(set) var lines: [Int] = []
    private(set) var faults: [PushFault] = []

    init(_ format: Format, isPartial: Bool, key: String? = nil, parser: PushParser) {
        self.format = format
        self.isPartial = isPartial
        self.key = key
        self.parser = parser
    }

    /// The greatest length of the idempotency key of a request, in bytes: those of lines are longer.
    static func maximumKeyBytes(_ format: Format) -> Int {
        format == .lines ? PushParser.maximumKeyBytes - 16 : PushParser.maximumKeyBytes
    }

    /// The number of pushes that were found, including invalid ones.
    var count: Int { self.pushes.count + self.faults.count }

    /// Parses the next pushes.
    ///
    /// - Parameters:
    ///   - body: the whole body, which must be the same in each call.
    ///   - limit: the maximum number of lines to parse in this call.
    mutating func parse(_ body: UnsafeBufferPointer<UInt8>, limit: Int) -> Progress {
        guard self.format == .lines else {
            self.line = 1
            self.add(body, 0..<body.count)
            return .finished
        }
        var remaining = limit
        while self.position < body.count {
            if remaining <= 0 { return .unfinished }
            remaining -= 1
            let rest = body[self.position...]
            let end = rest.firstIndex(of: UInt8(ascii: "\n")) ?? body.count
            let range = self.position..<end
            self.position = end + 1
            self.line += 1
            if Self.isBlank(body, range) { continue }
            if self.count == Self.maximumPushes { return .tooMany }
            self.add(body, range)
            if !self.isPartial, !self.faults.isEmpty { return .finished }
        }
        return .finished
    }

    private mutating func add(_ body: UnsafeBufferPointer<UInt8>, _ range: Range<Int>) {
        self.parser.requestKey = self.key.map { self.format == .lines ? "\($0)/\(self.line)" : $0 }
        do {
            self.pushes.append(try self.parser.parse(body, in: range))
            self.lines.append(self.line)
        } catch {
            var fault = error
            fault.line = self.line
            self.faults.append(fault)
        }
    }

    private static func isBlank(_ body: UnsafeBufferPointer<UInt8>, _ range: Range<Int>) -> Bool {
        for index in range {
            switch body[index] {
            case 0x20, 0x09, 0x0D: continue
            default: return false
            }
        }
        return true
    }
}
