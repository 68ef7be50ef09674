import APNSModel
import PushQueue
import Testing

@testable import APNSRelay

struct InFlightWindowTests {
    private static let route = Self.route("shop", .bulk)
    private static let interactive = Self.route("shop", .interactive)

    private static func route(_ caller: String, _ lane: PushLane) -> Route {
        Route(app: "fern", environment: "production", lane: lane, caller: caller)
    }

    @Test("Many bulk routes of one caller leave a tenth of the window to other callers and to interactive routes")
    func callers() {
        let window = InFlightWindow(limit: 1_000)
        var held = Array(repeating: 0, count: 10)
        for index in held.indices {
            while case let places = window.reserve(50, held: held[index], of: Self.route), places > 0 {
                held[index] += places
            }
        }
        #expect(held.reduce(0, +) == 900 && held[0] == 800)
        // Those of a second caller get nine tenths of the rest.
        var other = 0
        for held in [0, 80] {
            while case let places = window.reserve(50, held: held + other, of: Self.route("bank", .bulk)), places > 0 {
                other += places
            }
        }
        #expect(other == 80)
        // A batch that has ended makes room for the others of its caller.
        window.release(held[0], of: Self.route)
        #expect(window.reserve(500, held: held[1], of: Self.route) > 300)
        #expect(window.reserve(10, held: 0, of: Self.interactive) == 10)
        #expect(window.reserve(10, held: 0, of: Self.route("news", .interactive)) == 10)
    }

    @Test("The bulk routes of any number of callers leave room for interactive routes", arguments: [2, 10, 100, 2_000])
    func manyCallers(limit: Int) {
        let window = InFlightWindow(limit: limit)
        for number in 0..<300 {
            var held = 0
            let route = Self.route("caller\(number)", .bulk)
            while case let places = window.reserve(500, held: held, of: route), places > 0 { held += places }
        }
        #expect(window.inFlight == limit - max(1, limit / 50))
        #expect(window.reserve(1, held: 0, of: Self.interactive) == 1)
    }

    @Test("One route alone gets four fifths of the window, and a second one four fifths of the rest")
    func shares() {
        let window = InFlightWindow(limit: 1_000)
        var first = 0
        while case let places = window.reserve(50, held: first, of: Self.interactive), places > 0 { first += places }
        #expect(first == 800)
        var second = 0
        while case let places = window.reserve(50, held: second, of: Self.interactive), places > 0 { second += places }
        #expect(second == 160)
        #expect(window.inFlight == 960)
    }

    @Test("The window is never exceeded, and a route without a place gets one while there is one", arguments: 1...20)
    func bounds(limit: Int) {
        for inFlight in 0...limit {
            for held in 0...inFlight {
                let room = InFlightWindow.room(limit: limit, inFlight: inFlight, held: held, wanted: 100)
                #expect(room >= 0 && inFlight + room <= limit)
                if held == 0, inFlight < limit { #expect(room > 0) }
            }
        }
    }

    @Test("A waiting route is woken by a release, and never misses one", .timeLimit(.minutes(5)))
    func wakes() async {
        let window = InFlightWindow(limit: 1)
        #expect(window.reserve(1, held: 0, of: Self.interactive) == 1)
        let generation = window.generation
        window.release(1, of: Self.interactive)
        // Released before the wait: returns at once.
        await window.waitForRelease(since: generation)

        let later = window.generation
        async let waiting: Void = window.waitForRelease(since: later)
        window.wakeAll()
        await waiting
    }

    @Test("A smaller limit holds once enough places are returned, and a larger one wakes", .timeLimit(.minutes(5)))
    func changes() async {
        let window = InFlightWindow(limit: 10)
        #expect(window.reserve(8, held: 0, of: Self.interactive) == 8)
        window.setLimit(3)
        #expect(window.reserve(5, held: 0, of: Self.interactive) == 0)
        window.release(5, of: Self.interactive)
        #expect(window.reserve(5, held: 0, of: Self.interactive) == 0)
        window.release(1, of: Self.interactive)
        #expect(window.reserve(5, held: 0, of: Self.interactive) == 1)
        let generation = window.generation
        async let waiting: Void = window.waitForRelease(since: generation)
        window.setLimit(100)
        await waiting
        #expect(window.reserve(50, held: 0, of: Self.interactive) == 50)
    }

    @Test("A cancelled wait returns", .timeLimit(.minutes(5)))
    func cancels() async {
        let window = InFlightWindow(limit: 1)
        let generation = window.generation
        let waiting = Task { await window.waitForRelease(since: generation) }
        waiting.cancel()
        await waiting.value
    }
}

struct WakeupTests {
    @Test("A signal before the wait is kept, and several become one", .timeLimit(.minutes(5)))
    func keeps() async {
        let wakeup = Wakeup()
        wakeup.signal()
        wakeup.signal()
        #expect(wakeup.isSignalled)
        await wakeup.wait()
        #expect(!wakeup.isSignalled)
        async let waiting: Void = wakeup.wait()
        wakeup.signal()
        await waiting
    }
}
