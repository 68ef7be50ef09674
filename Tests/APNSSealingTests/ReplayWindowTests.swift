#if Sealing
    import Foundation
    import TestSupport
    import Testing

    @testable import APNSSealing

    struct ReplayWindowTests {
        private static let now = Milliseconds(.start)

        private static func message(_ number: UInt32, at offset: Int64) -> ReplayWindow.Seen {
            let bytes = (0..<12).map { UInt8(truncatingIfNeeded: number >> UInt32($0 % 4 * 8)) }
            return ReplayWindow.Seen(time: now.count + offset, id: SealedMessageID(bytes))
        }

        private func admit(
            _ window: inout ReplayWindow,
            _ message: ReplayWindow.Seen,
            after offset: Int64 = 0
        ) -> SealingError.Code? {
            let before = window
            do throws(SealingError) {
                try window.admit(message, at: Self.now.advanced(by: offset))
                return nil
            } catch {
                #expect(window == before, "a refusal changed the window")
                return error.code
            }
        }

        @Test func aMessageIsAdmittedOnce() {
            var window = ReplayWindow()
            #expect(admit(&window, Self.message(1, at: 0)) == nil)
            #expect(admit(&window, Self.message(1, at: 0)) == .replayed)
            #expect(admit(&window, Self.message(1, at: 0), after: 5_000) == .replayed)
            #expect(admit(&window, Self.message(2, at: 0)) == nil)
            #expect(admit(&window, Self.message(2, at: 0)) == .replayed)
            #expect(window.count == 2)
        }

        @Test func messagesMayArriveInAnyOrder() {
            var window = ReplayWindow()
            for offset: Int64 in [0, -5, 7, -9, 3, 3] {
                #expect(admit(&window, Self.message(UInt32(window.count), at: offset)) == nil)
            }
            for (number, offset) in zip(UInt32(0)..., [0, -5, 7, -9, 3, 3] as [Int64]) {
                #expect(admit(&window, Self.message(number, at: offset)) == .replayed)
            }
        }

        @Test func ageLimitsHoldToTheMillisecond() {
            var window = ReplayWindow(span: .seconds(10), tolerance: .seconds(2))
            #expect(admit(&window, Self.message(1, at: -10_000)) == nil)
            #expect(admit(&window, Self.message(2, at: -10_001)) == .tooOld)
            #expect(admit(&window, Self.message(3, at: 2_000)) == nil)
            #expect(admit(&window, Self.message(4, at: 2_001)) == .fromTheFuture)
        }

        @Test func messagesBeforeTheBeginningAreTooOld() {
            var window = ReplayWindow(beginning: .start)
            #expect(admit(&window, Self.message(1, at: -1)) == .tooOld)
            #expect(admit(&window, Self.message(2, at: 0)) == nil)
        }

        @Test func aFullWindowNeverReadmitsForgottenMessages() {
            var window = ReplayWindow(capacity: 3)
            for number: UInt32 in 0..<5 {
                #expect(admit(&window, Self.message(number, at: Int64(number))) == nil)
            }
            #expect(window.count == 3)
            #expect(admit(&window, Self.message(0, at: 0)) == .tooOld)
            #expect(admit(&window, Self.message(1, at: 1)) == .tooOld)
            #expect(admit(&window, Self.message(2, at: 2)) == .replayed)
            // A new message of that age is refused too.
            #expect(admit(&window, Self.message(9, at: 1)) == .tooOld)
        }

        /// Messages of one millisecond are forgotten together, or one of them could be admitted twice.
        @Test func messagesOfOneMillisecondAreForgottenTogether() {
            var window = ReplayWindow(capacity: 2)
            for number: UInt32 in 0..<3 { #expect(admit(&window, Self.message(number, at: 0)) == nil) }
            #expect(window.count == 0)
            for number: UInt32 in 0..<3 { #expect(admit(&window, Self.message(number, at: 0)) == .tooOld) }
            #expect(admit(&window, Self.message(3, at: 1)) == nil)
        }

        /// A clock that was a century ahead for a moment does not close the window.
        @Test func aClockJumpDoesNotCloseTheWindow() {
            var window = ReplayWindow()
            let century: Int64 = 100 * 365 * 86_400_000
            #expect(admit(&window, Self.message(1, at: 0)) == nil)
            #expect(admit(&window, Self.message(2, at: century), after: century) == nil)
            #expect(window.count == 1)
            #expect(admit(&window, Self.message(3, at: 1_000), after: 1_000) == nil)
            // After the clock is set back, old messages stay refused.
            #expect(admit(&window, Self.message(1, at: 0)) == .tooOld)
        }

        @Test func extremesDoNotTrap() {
            var window = ReplayWindow(
                span: .seconds(Int64.max),
                tolerance: .seconds(Int64.max),
                capacity: .min,
                beginning: Date(timeIntervalSince1970: -.infinity)
            )
            let last = ReplayWindow.Seen(time: Milliseconds.limit, id: SealedMessageID([1]))
            #expect(admit(&window, last) == nil)
            #expect(admit(&window, last) == .replayed)
            #expect(admit(&window, ReplayWindow.Seen(time: Milliseconds.limit, id: SealedMessageID([2]))) == nil)
            #expect(admit(&window, last) == .tooOld)
            var narrow = ReplayWindow(span: .seconds(-5), tolerance: .zero)
            #expect(admit(&narrow, Self.message(1, at: 0)) == nil)
            #expect(admit(&narrow, Self.message(2, at: -1)) == .tooOld)
        }

        @Test func aWindowRoundTrips() throws {
            var window = ReplayWindow(span: .seconds(100), tolerance: .seconds(7), capacity: 2, beginning: .start)
            for number: UInt32 in 0..<3 { _ = admit(&window, Self.message(number, at: Int64(number))) }
            let data = try JSONEncoder().encode(window)
            #expect(try JSONDecoder().decode(ReplayWindow.self, from: data) == window)
        }

        @Test func aDamagedStoreDoesNotTrap() throws {
            let text = """
                {"span":-1,"tolerance":\(Int64.max),"capacity":-3,"floor":\(Int64.min),
                 "seen":[{"time":\(Int64.max),"id":"AAAAAAAAAAAAAAAA"},{"time":-5,"id":"AAAAAAAAAAAAAAAB"}]}
                """
            var window = try JSONDecoder().decode(ReplayWindow.self, from: Data(text.utf8))
            #expect(window.count == 1)
            #expect(admit(&window, Self.message(1, at: 0)) == nil)
            #expect(throws: DecodingError.self) {
                try JSONDecoder().decode([SealedMessageID].self, from: Data(#"["AAAA"]"#.utf8))
            }
        }

        /// Compares random messages, clocks and restarts with a model that never forgets. An admitted message is never
        /// admitted again. A new message within the time limits and later than the forgotten ones is always admitted.
        @Test func theWindowAgreesWithAModel() async throws {
            let run = PropertyRun(commands: 12_000, runs: 4)
            for seed in run.seeds {
                await TestScale.letOthersRun()
                var random = SeededRandom(seed: seed)
                let capacity = Int.random(in: 1...40, using: &random)
                var window = ReplayWindow(span: .milliseconds(400), tolerance: .milliseconds(30), capacity: capacity)
                var admitted: Set<ReplayWindow.Seen> = []
                var clock: Int64 = 0
                for command in 0..<run.commandsPerRun {
                    clock += Int64.random(in: -20...40, using: &random)
                    if command % 500 == 499 { clock += Int64.random(in: -5_000...5_000, using: &random) }
                    let message =
                        if Bool.random(using: &random), let old = admitted.randomElement(using: &random) {
                            old
                        } else {
                            Self.message(
                                UInt32.random(in: 0...200, using: &random),
                                at: clock + Int64.random(in: -500...60, using: &random)
                            )
                        }
                    let refusal = admit(&window, message, after: clock)
                    let age = Self.now.count + clock - message.time
                    if admitted.contains(message) {
                        #expect(refusal != nil, "\(run.replay(seed))")
                    } else if age < -30 {
                        #expect(refusal == .fromTheFuture, "\(run.replay(seed))")
                    } else if age > 400 {
                        #expect(refusal == .tooOld, "\(run.replay(seed))")
                    } else if refusal != nil {
                        // Only because a message at least as late was forgotten.
                        #expect(refusal == .tooOld, "\(run.replay(seed))")
                        #expect(admitted.contains { $0.time >= message.time }, "\(run.replay(seed))")
                    }
                    if refusal == nil { admitted.insert(message) }
                    #expect(window.count <= capacity, "\(run.replay(seed))")
                    if command % 100 == 0 {
                        window = try JSONDecoder().decode(ReplayWindow.self, from: JSONEncoder().encode(window))
                    }
                }
                #expect(!admitted.isEmpty)
            }
        }

        @Test func anOpenerUsesAWindow() throws {
            let key = SealingKey()
            let opener = PayloadOpener(key: key)
            let sealed = try PayloadSealer(key: key).seal(bytes: [1], at: .start)
            var window = ReplayWindow()
            #expect(try opener.open(sealed, admittedBy: &window, at: .start).content == [1])
            let again = sealingError { try opener.open(sealed, admittedBy: &window, at: .start) }
            #expect(again?.code == .replayed)
            let late = sealingError {
                try opener.open(sealed, admittedBy: &window, at: .start.addingTimeInterval(32 * 86_400))
            }
            #expect(late?.code == .tooOld)
            // Without a window, a message opens any number of times.
            #expect(try opener.open(sealed, at: .start).content == [1])
            // A payload that is not authentic does not reach the window.
            let count = window.count
            var bytes = sealed.bytes
            bytes[12] ^= 1
            let forged = try SealedPayload(bytes: bytes)
            #expect(sealingError { try opener.open(forged, admittedBy: &window, at: .start) }?.code == .notAuthentic)
            #expect(window.count == count)
        }
    }
#endif
