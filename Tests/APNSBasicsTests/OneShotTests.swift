import APNSBasics
import Testing

struct OneShotTests {
    /// What can happen to a one-shot value, each at most once.
    private enum Event: CaseIterable {
        case give, giveAgain, cancel, wait
    }

    private static func orders(_ events: [Event]) -> [[Event]] {
        guard !events.isEmpty else { return [[]] }
        return events.indices.flatMap { index in
            var rest = events
            let first = rest.remove(at: index)
            return self.orders(rest).map { [first] + $0 }
        }
    }

    /// What comes before the wait happens in the waiting task, so its order is exact. What follows races with the wait.
    @Test("In every order of its events, a wait gets the value that was given first")
    func everyOrder() async throws {
        for order in Self.orders(Event.allCases) {
            let shot = OneShot<Int>()
            let wait = try #require(order.firstIndex(of: .wait))
            let begun = OneShot<Void>()
            let task = Task {
                let firsts = order[..<wait].map {
                    self.perform($0, on: shot) { withUnsafeCurrentTask { $0?.cancel() } }
                }
                begun.give(())
                return (firsts: firsts.compactMap { $0 }, value: await shot.wait(orCancelled: -1))
            }
            await begun.wait()
            let later = order[(wait + 1)...].compactMap { self.perform($0, on: shot) { task.cancel() } }
            let (earlier, value) = await task.value
            let firsts = earlier + later
            #expect(firsts.count <= 1 && value == firsts.first ?? -1, "\(order)")
            #expect(order.contains(.cancel))
            // What was given before the wait wins over everything later.
            if let first = order[..<wait].first {
                #expect(first == .cancel || value == (first == .give ? 1 : 2), "\(order)")
            }
            #expect(await shot.wait() == value && !shot.give(3), "\(order)")
        }
    }

    /// - Returns: The value, if it is the first one.
    private func perform(_ event: Event, on shot: OneShot<Int>, cancel: () -> Void) -> Int? {
        switch event {
        case .give: return shot.give(1) ? 1 : nil
        case .giveAgain: return shot.give(2) ? 2 : nil
        case .cancel: cancel()
        case .wait: break
        }
        return nil
    }

    @Test("A value, a second one and a cancellation that race give one value, and every wait ends")
    func races() async {
        await withDiscardingTaskGroup { group in
            for round in 0..<500 {
                group.addTask { @concurrent in
                    let shot = OneShot<Int>()
                    let waiter = Task { @concurrent in await shot.wait(orCancelled: -1) }
                    let other = Task { @concurrent in await shot.wait() }
                    let givers = (1...2).map { number in Task { @concurrent in shot.give(number) } }
                    if round % 2 == 0 { waiter.cancel() }
                    var firsts = 0
                    for giver in givers where await giver.value { firsts += 1 }
                    let value = await waiter.value
                    #expect(await other.value == value)
                    #expect(firsts == (value == -1 ? 0 : 1))
                }
            }
        }
    }

    @Test("A wait with a handler of its own goes on after a cancellation, until a value is given")
    func handler() async {
        let shot = OneShot<Int>()
        let cancelled = OneShot<Void>()
        let task = Task { await shot.wait { cancelled.give(()) } }
        task.cancel()
        await cancelled.wait()
        #expect(shot.give(5))
        #expect(await task.value == 5)
    }
}
