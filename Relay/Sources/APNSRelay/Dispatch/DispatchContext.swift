import APNSModel
import Logging
import PushQueue
import SupervisedPool

/// The queue, the settings and the limits that all routes share.
struct DispatchContext: Sendable {
    let queue: any PushQueue
    let clock: any QueueClock
    let settings: DispatchSettings
    let rules: RetryRules
    let window: InFlightWindow
    let outbox: Outbox
    let metrics: RelayMetrics
    let logger: Logger
    var pausedApps = PausedApps([])
    let batches: ActiveBatches
    let appRates: AppRates
    var storage: StorageWatch { self.outbox.storage }
    /// The clock, if it detects implausible jumps; nil otherwise.
    var guardedClock: GuardedClock?
    /// The device token of a push in the queue; nil if it cannot be decrypted.
    var deviceToken: @Sendable (DeviceToken, Route) -> DeviceToken? = { token, _ in token }
    /// Set once, when the shutdown begins.
    let isStopping = StopFlag()

    /// The duration of a claim. It must cover the time until the mark, even if the queue is slow for a while.
    static let claimLease = Duration.seconds(60)

    var writtenLease: Duration { self.settings.attemptDeadline + self.settings.settleMargin }

    /// How many pushes of a route may be claimed now, by the rates of its batch and of its app.
    ///
    /// - Parameter wanted: the maximum.
    /// - Returns: the number, and how long to wait if it is 0.
    func allowance(_ route: Route, wanted: Int) -> (count: Int, wait: Duration) {
        let ofBatch = self.batches.allowance(route, wanted: wanted)
        guard ofBatch.count > 0 else { return ofBatch }
        let ofApp = self.appRates.allowance(route, wanted: ofBatch.count)
        self.batches.giveBack(ofBatch.count - ofApp.count, route)
        return ofApp
    }

    /// Gives back what was allowed and not claimed.
    func giveBack(allowance count: Int, _ route: Route) {
        self.batches.giveBack(count, route)
        self.appRates.giveBack(count, route)
    }

    /// Repeats a call of the queue until it succeeds.
    ///
    /// - Returns: the result; nil if the queue is closed or unusable, or if the relay is stopping.
    func persistently<Value: Sendable>(
        _ purpose: String,
        _ call: @Sendable () async throws(QueueError) -> Value
    ) async -> Value? {
        var delays = Backoff(.doubling(), minimum: .milliseconds(100), maximum: .seconds(5))
        while true {
            do throws(QueueError) {
                let value = try await call()
                self.storage.note(purpose, nil)
                return value
            } catch {
                self.storage.note(purpose, error)
                self.metrics.storageFailed(error)
                let isFinal = error.code == .closed || error.code == .unusable
                self.logger.log(
                    level: isFinal ? .error : .warning,
                    "The queue cannot \(purpose)\(isFinal ? "" : "; trying again")",
                    metadata: ["error": "\(error)"]
                )
                guard !isFinal, !self.isStopping.isSet else { return nil }
            }
            try? await Task.sleep(for: delays.next())
            if Task.isCancelled { return nil }
        }
    }
}
