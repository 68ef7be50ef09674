import PushQueue

@testable import APNSRelay

extension WebhookMachine {
    /// Reports the end of an attempt; the next delay has its full length.
    mutating func didSend(_ result: Result, now: QueueTime) {
        var random = Smallest()
        self.didSend(result, now: now, using: &random)
    }

    /// Every number that is drawn with it is the smallest of its range. With 0 instead of 1, drawing would not end, because
    /// it rejects the numbers that would make the distribution uneven.
    private struct Smallest: RandomNumberGenerator {
        mutating func next() -> UInt64 { 1 }
    }
}
