import APNSModel
import APNSSimulator
import NIOHTTP1

/// The live stream, as Server-Sent Events (HTML standard, section 9.2).
extension ControlAPI {
    /// The time between two flushes. Without it, a browser would be woken for each push.
    private static let interval = Duration.milliseconds(100)
    /// The maximum number of pushes in one flush.
    private static let batch = 1000

    func events(_ request: ControlRequest) throws -> ControlResponse {
        try self.allow([.GET], request)
        try request.allowQuery(["after"])
        var after = try request.integer("after", in: 0...Int.max)
        if after == nil, let last = request.headers["last-event-id"].first {
            guard let order = Int(last), order >= 0 else {
                throw ControlError.invalid("last-event-id: \(last): expected the number of a push.")
            }
            after = order
        }
        let counts = self.simulator.counts
        // A number that is not there yet is from before a restart. The client must start anew.
        let isForeign = (after ?? 0) > counts.lastOrder
        let start = isForeign ? 0 : after ?? counts.lastOrder
        let resets = isForeign ? counts.resets - 1 : counts.resets
        return .stream(type: "text/event-stream") { write in
            try await self.stream(after: start, resets: resets, to: write)
        }
    }

    private func stream(after start: Int, resets: Int, to write: ControlResponse.Writer) async throws {
        var last = start
        var resets = resets
        var nextState = ContinuousClock.now
        var text: [UInt8] = []
        while !Task.isCancelled {
            text.removeAll(keepingCapacity: true)
            let now = ContinuousClock.now
            let (counts, pushes) = self.simulator.batch(after: last, limit: Self.batch)
            if counts.resets != resets {
                resets = counts.resets
                Self.append("reset", JSONObject(), to: &text)
            }
            last = max(last, counts.clearedOrder)
            for push in pushes {
                if push.order > last + 1 {
                    // Pushes and broadcasts are dropped separately, so the gap may be anywhere.
                    let gap: JSONObject = ["from": last + 1, "to": push.order - 1]
                    Self.append("dropped", gap, to: &text)
                }
                Self.append("push", PushJSON(self.simulator, push, .summary), id: push.order, to: &text)
                last = push.order
            }
            if now >= nextState {
                // Also shows the client that the connection works, and the server that the client is still there.
                Self.append("state", self.state, to: &text)
                nextState = now + .seconds(1)
            }
            if !text.isEmpty { try await write(text) }
            if pushes.count < Self.batch { try await Task.sleep(until: now + Self.interval) }
        }
    }

    private static func append(_ event: String, _ data: some Encodable, id: Int? = nil, to text: inout [UInt8]) {
        text.append(contentsOf: "event: \(event)\n".utf8)
        if let id { text.append(contentsOf: "id: \(id)\n".utf8) }
        text.append(contentsOf: "data: ".utf8)
        text.append(contentsOf: ControlResponse.line(data))
        text.append(UInt8(ascii: "\n"))
    }
}
