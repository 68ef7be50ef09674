import Foundation
import Synchronization

/// Hands pushes in, over and over until a relay has acknowledged each, as a careful application does.
package final class PushLoad: Sendable {
    package enum Reply: Sendable, Hashable {
        case acknowledged
        /// With another status than 202.
        case refused(status: Int)
        /// There was no response: the relay is being killed, for example.
        case failed
    }

    private struct Receipt: Decodable {
        struct Push: Decodable {
            var id: String
        }
        var pushes: [Push]
    }

    private struct State {
        var ids: [Int: String] = [:]
        var statuses: [Int: Int] = [:]
        var faults: [String] = []
    }

    private let resendsUnknown: Bool
    private let state = Mutex(State())

    package init(resendsUnknown: Bool = false) {
        self.resendsUnknown = resendsUnknown
    }

    /// The ids of the acknowledged pushes, by the numbers in their idempotency keys.
    package var ids: [Int: String] { self.state.withLock { $0.ids } }

    /// The number of responses by status.
    package var statuses: [Int: Int] { self.state.withLock { $0.statuses } }

    /// Responses that no relay may give.
    package var faults: [String] { self.state.withLock { $0.faults } }

    /// Submits the pushes with these numbers in one request.
    package func post(_ numbers: Range<Int>, to relay: RelayUnderTest) async throws -> Reply {
        let lines = numbers.map { number in
            """
            {"app":"fern","token":"\(Self.token(number))","headers":{"apns-push-type":"alert"},\
            "payload":{"aps":{"alert":"push \(number)"}},"idempotencyKey":"key-\(number)"\
            \(self.resendsUnknown ? ",\"resendUnknown\":true" : "")}
            """
        }
        let response: TestHTTPClient.Response
        do {
            response = try await relay.request(
                "POST",
                "/v1/pushes",
                body: lines.joined(separator: "\n"),
                type: "application/x-ndjson"
            )
        } catch {
            return .failed
        }
        self.state.withLock { $0.statuses[response.status, default: 0] += 1 }
        guard response.status == 202 else {
            if response.status != 503 {
                self.state.withLock { $0.faults.append("status \(response.status): \(response.text)") }
            }
            return .refused(status: response.status)
        }
        let receipt = try response.decode(Receipt.self)
        self.state.withLock { state in
            if receipt.pushes.count != numbers.count {
                state.faults.append("\(receipt.pushes.count) ids for \(numbers.count) pushes")
            }
            for (number, push) in zip(numbers, receipt.pushes) {
                if let id = state.ids[number], id != push.id {
                    state.faults.append("push \(number) has the ids \(id) and \(push.id)")
                }
                state.ids[number] = push.id
            }
        }
        return .acknowledged
    }

    /// The device token of the push with a number.
    package static func token(_ number: Int) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 64 - digits.count) + digits
    }
}
