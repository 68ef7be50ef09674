import SupervisedPool
import Synchronization

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Submits a batch to a relay, and follows it until every push has its outcome.
package struct BatchClient: Sendable {
    /// What a relay or the connection to it makes impossible.
    package struct Failure: Error, CustomStringConvertible {
        package let description: String
    }

    /// The progress of a batch.
    package struct Progress: Sendable, Hashable, Decodable {
        package struct Outcomes: Sendable, Hashable, Decodable {
            package var accepted = 0
            package var rejected = 0
            package var notProcessed = 0
            package var notSent = 0
            package var unknown = 0

            package var count: Int {
                self.accepted + self.rejected + self.notProcessed + self.notSent + self.unknown
            }
        }

        package var id: String
        package var name: String?
        package var state: String
        /// When it was submitted, in seconds since 1970.
        package var createdAt: Double
        package var queued: Int
        package var inFlight: Int
        package var parked: Int
        package var invalid: Int
        package var outcomes: Outcomes
        package var deadTokens: Int

        /// What an operator must look at; empty if every push was accepted, or rejected because its device token is dead.
        package var concerns: [String] {
            let counts = [
                (self.parked, "parked: retry or drop them"),
                (self.outcomes.rejected - self.deadTokens, "rejected, and not because of a dead token"),
                (self.outcomes.notProcessed, "not processed"), (self.outcomes.notSent, "not sent"),
                (self.outcomes.unknown, "with an unknown outcome"),
            ]
            return counts.filter { $0.0 > 0 }.map { "\($0.0) \($0.1)" }
        }

        /// Whether nothing will change any more without an operator.
        package var isOver: Bool { self.queued + self.inFlight == 0 }
    }

    /// What the relay has done with a batch.
    package struct Submission: Sendable, Hashable, Decodable {
        package var batch: Progress
        /// Whether all devices were stored before. The first request of a call that is repeated does not count.
        package var duplicate: Bool
    }

    private struct ErrorResponse: Decodable {
        struct Content: Decodable {
            var message: String
            var line: Int?
            var field: String?
        }
        var error: Content
    }

    /// How often a request is repeated that may succeed later.
    private static let attempts = 20
    private static let interval = Duration.milliseconds(500)

    private let url: String
    private let token: String?
    private let client = CurlClient()

    /// - Parameters:
    ///   - url: the relay, such as `http://127.0.0.1:8027`.
    ///   - token: the caller's token; nil for a relay without callers.
    package init(url: String, token: String?) throws(Failure) {
        guard CurlClient.isValid(url) else {
            throw Failure(description: "\(url): expected http or https, a host, and a port up to 65535.")
        }
        self.url = url.hasSuffix("/") ? String(url.dropLast()) : url
        self.token = token
    }

    /// Submits a batch. Repeats the request if the relay cannot be reached or asks for that; the batch then continues where it
    /// stopped.
    ///
    /// - Parameters:
    ///   - file: the batch.
    ///   - isPartial: whether to leave invalid devices out.
    ///   - report: receives lines for a person.
    package func submit(
        _ file: BatchFile,
        isPartial: Bool,
        report: @escaping @Sendable (String) -> Void
    ) async throws -> Submission {
        var delays = Backoff(.doubling(), minimum: .seconds(1), maximum: .seconds(30))
        var attempt = 1
        while true {
            var problem: String
            do {
                let total = file.count
                let last = Mutex(ContinuousClock.now)
                let body = try file.body { count in
                    let isDue = last.withLock { last in
                        guard last.duration(to: .now) > .seconds(1) else { return false }
                        last = .now
                        return true
                    }
                    if isDue { report("submitting: \(count) of \(total) devices") }
                }
                let path = "/v1/batches\(isPartial ? "?partial=true" : "")"
                let (status, text) = try await self.perform(path, .parts(body), timeout: .seconds(12 * 3_600))
                if status == 202 {
                    var submission = try JSONDecoder().decode(Submission.self, from: text)
                    // An earlier request of this call may have stored the devices.
                    if attempt > 1 { submission.duplicate = false }
                    return submission
                }
                problem = Self.message(status, text)
                guard status >= 500 || status == 408 || status == 429 else { throw Failure(description: problem) }
            } catch let error as BatchFileError {
                throw error
            } catch let error as Failure {
                throw error
            } catch {
                problem = "the request to the relay failed: \(error)"
            }
            guard attempt < Self.attempts else { throw Failure(description: problem) }
            attempt += 1
            let delay = delays.next()
            report("\(problem); trying again in \(Int((delay / .seconds(1)).rounded(.up))) s")
            try await Task.sleep(for: delay)
        }
    }

    /// Follows a batch until nothing is queued or in flight. A relay that cannot be reached is asked again.
    package func follow(_ id: String, report: (Progress) -> Void) async throws -> Progress {
        var failures = 0
        while true {
            do {
                let (status, text) = try await self.perform("/v1/batches/\(id)", timeout: .seconds(30))
                guard status == 200 else { throw Failure(description: Self.message(status, text)) }
                let progress = try JSONDecoder().decode(Progress.self, from: text)
                failures = 0
                report(progress)
                if progress.isOver { return progress }
            } catch {
                failures += 1
                if failures > 120 || Task.isCancelled { throw error }
            }
            try await Task.sleep(for: Self.interval)
        }
    }

    private func perform(
        _ path: String,
        _ body: CurlClient.Request.Body = .none,
        timeout: Duration
    ) async throws -> (Int, Data) {
        var headers = [("user-agent", "apns-relay")]
        if case .parts = body { headers.append(("content-type", "application/x-ndjson")) }
        if let token { headers.append(("authorization", "Bearer \(token)")) }
        let response = try await self.client.perform(
            CurlClient.Request(
                url: self.url + path,
                body: body,
                headers: headers,
                timeout: timeout,
                maxResponseBytes: 1 << 20
            )
        )
        guard response.isComplete else { throw CurlClient.Failure.failed("the relay's response is not complete") }
        return (response.status, Data(response.body))
    }

    private static func message(_ status: Int, _ text: Data) -> String {
        guard let error = try? JSONDecoder().decode(ErrorResponse.self, from: text).error else {
            return "the relay responded with status \(status)"
        }
        let place = [error.line.map { "line \($0)" }, error.field].compactMap { $0 }.joined(separator: ", ")
        return place.isEmpty ? error.message : "\(place): \(error.message)"
    }
}
