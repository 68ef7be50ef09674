import SupervisedPool
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

struct BroadcastPacerTests {
    private typealias Machine = BroadcastPaceMachine
    private let channel = Machine.Channel(bundleID: "com.example.app", id: "AAAA")

    private func at(_ milliseconds: Int64) -> MonotonicInstant {
        MonotonicInstant(nanoseconds: milliseconds * 1_000_000)
    }

    @Test func sendTimesAreOneSpacingApart() {
        var machine = Machine()
        func take(_ now: Int64, _ deadline: Int64 = 60_000) -> Machine.Reservation {
            machine.take(self.channel, spacing: .seconds(1), now: at(now), deadline: at(deadline))
        }
        #expect(take(500) == .at(at(500)))
        #expect(take(600) == .at(at(1500)))
        #expect(take(600) == .at(at(2500)))
        #expect(take(700, 3500) == .tooLate(at(3500)))
        #expect(take(700, 3501) == .at(at(3500)))
        // Long after the last send time there is no wait.
        #expect(take(10_000, 10_000) == .at(at(10_000)))
    }

    @Test func channelsAndAppsDoNotWaitForEachOther() {
        var machine = Machine()
        let others = [
            Machine.Channel(bundleID: "b", id: "AAAA"), Machine.Channel(bundleID: "com.example.app", id: "B"),
        ]
        for channel in [self.channel] + others {
            #expect(machine.take(channel, spacing: .seconds(1), now: at(0), deadline: at(1)) == .at(at(0)))
        }
    }

    @Test func zeroSpacingPassesAllWaitingBroadcasts() {
        var machine = Machine()
        for _ in 0..<3 { _ = machine.take(self.channel, spacing: .seconds(1), now: at(0), deadline: at(9000)) }
        #expect(machine.take(self.channel, spacing: .zero, now: at(10), deadline: at(11)) == .at(at(10)))
        #expect(machine.take(self.channel, spacing: .seconds(1), now: at(10), deadline: at(9000)) == .at(at(3000)))
    }

    @Test func aCancelledSendTimeIsTakenByTheNext() {
        var machine = Machine()
        func take() -> Machine.Reservation {
            machine.take(self.channel, spacing: .seconds(1), now: at(0), deadline: at(60_000))
        }
        #expect(take() == .at(at(0)))
        #expect(take() == .at(at(1000)))
        machine.cancel(self.channel, sendTime: at(1000), spacing: .seconds(1))
        #expect(take() == .at(at(1000)))
        #expect(take() == .at(at(2000)))
        // A later send time is already reserved, so this one stays free.
        machine.cancel(self.channel, sendTime: at(1000), spacing: .seconds(1))
        #expect(take() == .at(at(3000)))
    }

    @Test func channelsAreForgottenAfterTheirSendTimes() {
        var machine = Machine()
        for number in 0..<100_000 {
            let channel = Machine.Channel(bundleID: "a", id: "\(number)")
            _ = machine.take(channel, spacing: .seconds(1), now: at(Int64(number)), deadline: .distantFuture)
        }
        #expect(machine.count <= 2100)
    }

    /// Random requests and cancellations: no two send times of a channel are closer than the spacing.
    @Test func sendTimesAreNeverCloserThanTheSpacing() async {
        let run = PropertyRun(commands: 4_000, runs: 10)
        for seed in run.seeds {
            await TestScale.letOthersRun()
            var random = SeededRandom(seed: seed)
            var machine = Machine()
            var now: Int64 = 0
            var sendTimes: [String: [MonotonicInstant]] = [:]
            for _ in 0..<run.commandsPerRun {
                now += Int64.random(in: 0...800, using: &random)
                let channel = Machine.Channel(bundleID: "a", id: "\(Int.random(in: 0..<3, using: &random))")
                let deadline = at(now + Int64.random(in: 0...5000, using: &random))
                switch machine.take(channel, spacing: .seconds(1), now: at(now), deadline: deadline) {
                case .at(let sendTime):
                    #expect(sendTime >= at(now) && (sendTime < deadline || sendTime == at(now)), "\(run.replay(seed))")
                    if sendTime > at(now), Int.random(in: 0..<4, using: &random) == 0 {
                        machine.cancel(channel, sendTime: sendTime, spacing: .seconds(1))
                    } else {
                        sendTimes[channel.id, default: []].append(sendTime)
                    }
                case .tooLate(let sendTime):
                    #expect(sendTime >= deadline, "\(run.replay(seed))")
                }
            }
            for list in sendTimes.values {
                let sorted = list.sorted()
                let gaps = zip(sorted, sorted.dropFirst()).map { $0.duration(to: $1) }
                #expect((gaps.min() ?? .seconds(1)) >= .seconds(1), "\(run.replay(seed))")
            }
        }
    }
}
