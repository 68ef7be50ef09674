import APNSSimulator
import Synchronization
import Testing

@testable import APNSPool

extension APNSID {
    /// A version 4 id that stands for a number.
    static func sample(_ number: Int) -> APNSID {
        APNSID(high: 0x1111_1111_1111_4111, low: 0x8000_0000_0000_0000 | UInt64(truncatingIfNeeded: number))
    }
}

/// The outcomes of many pushes, by their `apns-id`, for comparison with the pushes that the simulator processed.
final class OutcomeBook: Sendable {
    private struct State {
        var outcomes: [APNSID: [PushOutcome]] = [:]
        var count = 0
        var watcher: (count: Int, continuation: CheckedContinuation<Void, Never>)?
    }

    private let state = Mutex(State())

    func write(_ id: APNSID, _ outcome: PushOutcome) {
        state.withLock { state -> CheckedContinuation<Void, Never>? in
            state.outcomes[id, default: []].append(outcome)
            state.count += 1
            guard let watcher = state.watcher, state.count >= watcher.count else { return nil }
            state.watcher = nil
            return watcher.continuation
        }?.resume()
    }

    /// Waits for this number of outcomes. Only one caller may wait.
    func wait(for count: Int) async {
        await withCheckedContinuation { continuation in
            let isThere = state.withLock { state in
                if state.count >= count { return true }
                state.watcher = (count, continuation)
                return false
            }
            if isThere { continuation.resume() }
        }
    }

    var outcomes: [APNSID: [PushOutcome]] { state.withLock { $0.outcomes } }

    /// Checks that each push has one correct outcome: accepted pushes were processed once, unknown ones at most once,
    /// and all others never.
    func compare(with ledger: Ledger, _ comment: String) {
        self.compare(processed: ledger.processedCounts, comment)
    }

    /// As above.
    ///
    /// - Parameters:
    ///   - processed: how often the server processed each push.
    ///   - resendsUnknown: whether the client resends unknown pushes, which may then be processed repeatedly.
    func compare(processed: [APNSID: Int], resendsUnknown: Bool = false, _ comment: String) {
        let most = resendsUnknown ? Int.max : 1
        #expect(processed.allSatisfy { $0.value <= most }, "\(comment): pushes were processed more than once")
        var processed = processed
        for (id, all) in outcomes {
            if all.count != 1 { Issue.record("\(comment): \(id) has \(all.count) outcomes") }
            guard let outcome = all.first else { continue }
            let count = processed.removeValue(forKey: id) ?? 0
            let isTrue =
                switch outcome.certainty {
                case .accepted: (1...most).contains(count)
                case .unknown: count <= most
                case .rejected, .notSent, .notProcessed: count == 0
                }
            if !isTrue { Issue.record("\(comment): processed \(count) times: \(outcome)") }
        }
        processed = processed.filter { $0.value > 0 }
        if !processed.isEmpty { Issue.record("\(comment): \(processed.count) were processed and have no outcome") }
    }
}
