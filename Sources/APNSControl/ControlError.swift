import APNSModel
import APNSSimulator
import NIOHTTP1

/// A request that the control API refuses, and why.
struct ControlError: Error, Sendable {
    var status: HTTPResponseStatus
    var code: String
    /// What is wrong, and what to do.
    var message: String
    /// Further members of the error's JSON.
    var members: [JSONValue.Member] = []
    var headers: [(name: String, value: String)] = []

    init(_ status: HTTPResponseStatus, _ code: String, _ message: String) {
        self.status = status
        self.code = code
        self.message = message
    }

    static func invalid(_ message: String) -> ControlError { ControlError(.badRequest, "invalid", message) }
    static func notFound(_ message: String) -> ControlError { ControlError(.notFound, "not-found", message) }

    /// Runs a closure that reads JSON, and converts its error into one that names the location in the body.
    static func mapping<Value>(_ body: () throws(FaultScriptError) -> Value) throws(ControlError) -> Value {
        do {
            return try body()
        } catch {
            let place = error.keyPath.isEmpty ? "The body" : error.keyPath
            throw .invalid(place + (error.value.map { " = \($0)" } ?? "") + ": " + error.problem + ".")
        }
    }

    var response: ControlResponse {
        let error = JSONValue.object(["code": .string(self.code), "message": .string(self.message)])
        var response = ControlResponse.json(
            .object([JSONValue.Member(key: "error", value: error)] + self.members),
            status: self.status
        )
        for header in self.headers { response.headers.add(name: header.name, value: header.value) }
        return response
    }
}
