import APNSBasics
import APNSModel
package import APNSSimulator

/// A recorded push as JSON, for the control API and the file of `apns simulator --ledger`.
package struct PushJSON {
    private let simulator: Simulator
    private let push: PushRecord

    package init(_ simulator: Simulator, _ push: PushRecord) {
        self.simulator = simulator
        self.push = push
    }

    /// The form in lists.
    var summary: JSONValue { .object(self.members) }

    /// One line of a ledger: the form in lists and the payload.
    package var line: [UInt8] {
        JSONValue.object(self.members.merging(self.payload) { $1 }).bytes + [UInt8(ascii: "\n")]
    }

    /// The form of a single push, with headers, payload, response and hints.
    var detail: JSONValue {
        var members = self.members.merging(self.payload) { $1 }
        members["headers"] = Self.joined(self.push.headers)
        members["keyID"] = self.push.keyID.map { .string($0) }
        members["teamID"] = self.push.teamID.map { .string($0) }
        members["payloadJSON"] = JSONValue(json: self.push.payload)
        members["payloadLimit"] = .integer(Int64(self.push.payloadLimit))
        if self.push.fate == .responded, let status = self.push.status {
            var response: [String: JSONValue] = ["status": .integer(Int64(status))]
            response["reason"] = self.push.reason.map { .string($0.rawValue) }
            response["headers"] = Self.joined(self.push.responseHeaders)
            response["body"] = .string(String(decoding: self.push.responseBody, as: UTF8.self))
            members["response"] = .object(response)
        }
        members["hints"] = .array(
            self.simulator.hints(for: self.push).map {
                .object(["message": .string($0.message), "source": .string($0.source)])
            }
        )
        members["device"] = self.simulator.device(ofToken: self.push.deviceToken).map { .string($0) }
        return .object(members)
    }

    /// Repeated fields become one member (RFC 9110, section 5.2).
    private static func joined(_ fields: [(name: String, value: String)]) -> JSONValue {
        var joined: [(name: String, value: String)] = []
        for field in fields {
            if let index = joined.firstIndex(where: { $0.name == field.name }) {
                joined[index].value += ", \(field.value)"
            } else {
                joined.append(field)
            }
        }
        return .object(joined.map { JSONValue.Member(key: $0.name, value: .string($0.value)) })
    }

    private var members: [String: JSONValue] {
        let push = self.push
        var members: [String: JSONValue] = [
            "order": .integer(Int64(push.order)),
            "connection": .integer(Int64(push.connection)),
            "streamID": .integer(Int64(push.streamID)),
            "timeMilliseconds": .integer(self.simulator.milliseconds(of: push.time)),
            "delayMilliseconds": .integer(Int64((push.delay / .milliseconds(1)).rounded())),
            "payloadBytes": .integer(Int64(push.payloadBytes)),
            "fate": .string(push.fate.rawValue),
            "outcome": .string(push.outcome.rawValue),
            "isProcessed": .bool(push.isProcessed),
        ]
        members["deviceToken"] = push.channelID == nil ? .string(push.deviceToken) : nil
        members["channelID"] = push.channelID.map { .string($0) }
        members["apnsID"] = push.apnsID.map { .string($0.description.lowercased()) }
        members["topic"] = push.topic.map { .string($0) }
        members["pushType"] = push.pushType.map { .string($0.rawValue) }
        members["priority"] = push.priority.map { .integer(Int64($0.rawValue)) }
        members["expiration"] = push.expiration.map { .integer($0) }
        members["collapseID"] = push.collapseID.map { .string($0) }
        members["status"] = push.status.map { .integer(Int64($0)) }
        members["reason"] = push.reason.map { .string($0.rawValue) }
        members["faults"] = push.faults.isEmpty ? nil : .array(push.faults.map { .string($0) })
        members["summary"] = push.summary.map { .string($0) }
        return members
    }

    private var payload: [String: JSONValue] {
        if self.push.payload.isEmpty { return [:] }
        if let text = String(validating: self.push.payload, as: UTF8.self) { return ["payload": .string(text)] }
        return ["payloadBase64": .string(Base64.encode(self.push.payload))]
    }
}
