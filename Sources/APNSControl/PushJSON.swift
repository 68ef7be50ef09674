import APNSBasics
import APNSModel
package import APNSSimulator

/// A recorded push as JSON, for the control API and the file of `apns simulator --ledger`.
package struct PushJSON: Encodable {
    enum Form {
        /// The form in lists.
        case summary
        /// The form in lists and the payload.
        case withPayload
        /// All of it, with headers, response and hints.
        case detail
    }

    private let simulator: Simulator
    private let push: PushRecord
    private let form: Form

    init(_ simulator: Simulator, _ push: PushRecord, _ form: Form) {
        self.simulator = simulator
        self.push = push
        self.form = form
    }

    /// One line of a ledger.
    package static func line(_ simulator: Simulator, _ push: PushRecord) -> [UInt8] {
        ControlResponse.line(PushJSON(simulator, push, .withPayload))
    }

    package func encode(to encoder: any Encoder) throws {
        var members = self.summary
        if self.form != .summary { self.addPayload(to: &members) }
        if self.form == .detail { self.addDetails(to: &members) }
        try members.encode(to: encoder)
    }

    private var summary: JSONObject {
        let push = self.push
        var members = JSONObject()
        members["order"] = push.order
        members["connection"] = push.connection
        members["streamID"] = push.streamID
        members["timeMilliseconds"] = push.milliseconds
        members["delayMilliseconds"] = Int((push.delay / .milliseconds(1)).rounded())
        members["payloadBytes"] = push.payloadBytes
        members["fate"] = push.fate
        members["outcome"] = push.outcome.rawValue
        members["isProcessed"] = push.isProcessed
        members["deviceToken"] = push.channelID == nil ? push.deviceToken : nil
        members["channelID"] = push.channelID
        members["apnsID"] = push.apnsID
        members["topic"] = push.topic
        members["pushType"] = push.pushType
        members["priority"] = push.priority
        members["expiration"] = push.expiration
        members["collapseID"] = push.collapseID
        members["status"] = push.status
        members["reason"] = push.reason
        members["faults"] = push.faults.isEmpty ? nil : push.faults
        let isActivity = push.pushType == .liveactivity
        members["summary"] = isActivity ? push.activitySummary(after: self.simulator.previous(of: push)) : push.summary
        let hints = push.hints.count
        members["hintCount"] = hints > 0 ? hints : nil
        return members
    }

    private func addPayload(to members: inout JSONObject) {
        if self.push.payload.isEmpty { return }
        if let text = String(validating: self.push.payload, as: UTF8.self) {
            members["payload"] = text
        } else {
            members["payloadBase64"] = Base64.encode(self.push.payload)
        }
    }

    private func addDetails(to members: inout JSONObject) {
        let push = self.push
        members["headers"] = Self.joined(push.headers)
        members["keyID"] = push.keyID
        members["teamID"] = push.teamID
        members["payloadJSON"] = JSONValue(json: push.payload)
        members["payloadLimit"] = push.payloadLimit
        if push.fate == .responded, let status = push.status {
            var response: JSONObject = ["status": status, "reason": push.reason]
            response["headers"] = Self.joined(push.responseHeaders)
            response["body"] = String(decoding: push.responseBody, as: UTF8.self)
            members["response"] = response
        }
        members["hints"] = push.hints
        members["meaning"] = push.reason.flatMap { PushHint.meaning(of: $0) }
        members["device"] = self.simulator.device(ofToken: push.deviceToken)
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
}
