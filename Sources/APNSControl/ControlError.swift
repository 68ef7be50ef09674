import APNSModel
import APNSSimulator
import NIOHTTP1

/// A request that the control API refuses, and why.
struct ControlError: Error, Sendable {
    var status: HTTPResponseStatus
    var code: String
    /// What is wrong, and what to do.
    var message: String
    /// How many pushes arrived before a wait timed out.
    var received: Int?
    var headers: [(name: String, value: String)] = []

    init(_ status: HTTPResponseStatus, _ code: String, _ message: String) {
        self.status = status
        self.code = code
        self.message = message
    }

    static func invalid(_ message: String) -> ControlError { ControlError(.badRequest, "invalid", message) }
    static func notFound(_ message: String) -> ControlError { ControlError(.notFound, "not-found", message) }

    /// The refusal for an error that the API or the simulator threw.
    init(_ error: any Error) {
        switch error {
        case let error as ControlError: self = error
        case let error as JSONFieldError: self = .invalid(error.text("The body") + ".")
        case let error as VirtualDeviceError:
            let status: HTTPResponseStatus =
                switch error.code {
                case .deviceUnknown, .tokenUnknown, .channelUnknown: .notFound
                case .tokenTaken, .limitReached: .conflict
                default: .badRequest
                }
            self.init(status, error.code.rawValue, error.message)
        default: self.init(.internalServerError, "internal", "\(error)")
        }
    }

    var response: ControlResponse {
        let error: JSONObject = ["code": self.code, "message": self.message]
        let body: JSONObject = ["error": error, "received": self.received]
        var response = ControlResponse.json(body, status: self.status)
        for header in self.headers { response.headers.add(name: header.name, value: header.value) }
        return response
    }
}
