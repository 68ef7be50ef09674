package import APNSModel
import Synchronization

/// Generates the ids of pushes. They are UUIDs of version 7 (RFC 9562 §5.7), and each is larger than the one before it
/// in this process.
///
/// The ascending order keeps an index over the ids compact, because new ids are added at its end.
package final class PushIDGenerator: Sendable {
    private struct State {
        var milliseconds: UInt64 = 0
        /// 12 bits after the version.
        var high: UInt64 = 0
        /// 62 bits after the variant.
        var low: UInt64 = 0
    }

    private static let highMask: UInt64 = 0xFFF
    private static let lowMask: UInt64 = 0x3FFF_FFFF_FFFF_FFFF
    private static let timeMask: UInt64 = 0xFFFF_FFFF_FFFF

    private let state = Mutex(State())

    package init() {}

    /// The next id. If the clock was set back, ids continue from the latest time of earlier ids.
    package func next(at now: QueueTime) -> APNSID {
        let milliseconds = UInt64(clamping: now.millisecondsSince1970) & Self.timeMask
        return self.state.withLock { state in
            if milliseconds > state.milliseconds {
                var generator = SystemRandomNumberGenerator()
                state.milliseconds = milliseconds
                // The highest bit stays 0, to leave room for increments within the millisecond (RFC 9562 §6.2).
                state.high = generator.next() & (Self.highMask >> 1)
                state.low = generator.next() & Self.lowMask
            } else {
                // Ids within a millisecond count up from a random number (RFC 9562 §6.2, method 1). A new random number
                // for each id would cost a system call.
                state.low += 1
                if state.low > Self.lowMask {
                    state.low &= Self.lowMask
                    state.high += 1
                }
                if state.high > Self.highMask {
                    state.high = 0
                    state.milliseconds = (state.milliseconds + 1) & Self.timeMask
                }
            }
            return APNSID(
                high: state.milliseconds << 16 | 0x7000 | state.high,
                low: 0x8000_0000_0000_0000 | state.low
            )
        }
    }
}
