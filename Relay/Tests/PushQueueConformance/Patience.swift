/// How long tests wait for something that must happen.
package enum Patience {
    /// The one limit of all waits. It is far longer than a machine may stall, so that only a fault exceeds it.
    package static let limit = Duration.seconds(120)

    /// The condition did not hold within the limit.
    package struct Exceeded: Error, CustomStringConvertible {
        package let description: String
    }

    /// Polls until a condition holds.
    ///
    /// - Parameters:
    ///   - purpose: the condition, in words.
    ///   - limit: the longest wait.
    ///   - condition: what to wait for.
    ///   - explanation: what is the case instead, for the error.
    /// - Throws: `Exceeded` if the condition does not hold within the limit.
    package static func wait(
        for purpose: String,
        limit: Duration = Self.limit,
        _ condition: () async throws -> Bool,
        explanation: () async throws -> String = { "" }
    ) async throws {
        let start = ContinuousClock.now
        while try await !condition() {
            guard start.duration(to: .now) < limit else {
                throw Exceeded(description: "\(purpose): this did not happen in \(limit). \(try await explanation())")
            }
            try await Task.sleep(for: .milliseconds(10))
        }
    }
}
