import APNSModel
import Hummingbird
import PushQueue

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The response to a request that submits pushes.
struct EnqueueResponse {
    private(set) var queued = 0
    private(set) var duplicates = 0
    /// The pushes that were not stored. They are in the order of their lines after ``add(_:of:)``.
    private(set) var faults: [PushFault]
    private var pushes: [UInt8] = []

    init(faults: [PushFault]) {
        self.faults = faults
    }

    /// Adds the results of storing the pushes of a body.
    ///
    /// - Parameter known: what became of pushes that were submitted before.
    mutating func add(_ results: [EnqueueResult], of body: PushBody, known: [APNSID: PushStatus]) {
        self.pushes.reserveCapacity(results.count * 64)
        for (index, result) in results.enumerated() where index < body.pushes.count {
            let (push, line) = (body.pushes[index], body.lines[index])
            switch result {
            case .queued:
                self.queued += 1
                self.add("{\"line\":\(line),\"id\":\"\(push.id)\"}")
            case .duplicate(let id):
                self.duplicates += 1
                self.add("{\"line\":\(line),\"id\":\"\(id)\",\"duplicate\":true\(Self.members(known[id]))}")
            case .conflict(let id):
                let isSameID = push.id == id
                var fault = PushFault(
                    .conflict,
                    isSameID ? "headers.apns-id" : "idempotencyKey",
                    "another push was submitted with this \(isSameID ? "id" : "key"): \(id). A repetition has the same values, "
                        + "and its payload and metadata are the same byte for byte"
                )
                fault.line = line
                self.faults.append(fault)
            }
        }
        self.faults.sort { $0.line < $1.line }
    }

    /// The state of a push, and its outcome if it has one.
    private static func members(_ status: PushStatus?) -> String {
        guard let status else { return "" }
        let state = ",\"state\":\"\(status.state.rawValue)\""
        guard status.state == .settled, let outcome = status.outcome else { return state }
        let code = outcome.error.map { ",\"code\":\"\($0.code.rawValue)\"" } ?? ""
        return "\(state),\"outcome\":\"\(outcome.certainty.rawValue)\"\(code)"
    }

    private mutating func add(_ text: String) {
        if !self.pushes.isEmpty { self.pushes.append(UInt8(ascii: ",")) }
        self.pushes += Array(text.utf8)
    }

    var response: Response {
        let faults = self.faults.map { FaultJSON($0) }
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        // The list of pushes can be long. It contains only numbers and ids, so it needs no encoder.
        let errors = (try? encoder.encode(faults)) ?? Data("[]".utf8)
        var body = ByteBuffer(string: "{\"queued\":\(self.queued),\"duplicates\":\(self.duplicates),\"pushes\":[")
        body.writeBytes(self.pushes)
        body.writeString("],\"errors\":")
        body.writeBytes(errors)
        body.writeString("}")
        return .body(body, "application/json", status: .accepted)
    }
}

/// A push that was not stored, and why.
struct FaultJSON: Encodable {
    var line: Int
    var code: String
    var field: String?
    var message: String

    init(_ fault: PushFault) {
        self.line = fault.line
        self.code = fault.code.rawValue
        self.field = fault.field
        self.message = fault.message
    }
}
