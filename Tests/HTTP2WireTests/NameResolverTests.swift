import Foundation
import NIOCore
import NIOPosix
import Synchronization
import TestSupport
import Testing

@testable import HTTP2Wire

/// A look-up that blocks until the test releases it.
private final class BlockedLookUp: Sendable {
    private struct State {
        var asked: [String] = []
        var open: Set<String> = []
    }
    private let state = Mutex(State())
    private let begun = AsyncStream<String>.makeStream()

    func resolver(threads: Int) -> NameResolver {
        NameResolver(threads: threads) { host, port in
            self.state.withLock { $0.asked.append(host) }
            self.begun.continuation.yield(host)
            // This thread belongs to the resolver and may block.
            while !self.state.withLock({ $0.open.contains(host) }) { usleep(1000) }
            return Result { try SocketAddress(ipAddress: "127.0.0.1", port: port) }
                .map { [$0] }
                .mapError { _ in WireError(.hostNotFound, "no address") }
        }
    }

    var asked: [String] { self.state.withLock { $0.asked } }

    func release(_ hosts: String...) { self.state.withLock { $0.open.formUnion(hosts) } }

    /// Waits until a look-up of `host` has begun.
    func begins(_ host: String) async {
        for await begun in self.begun.stream where begun == host { return }
    }
}

struct NameResolverTests {
    private let loop = MultiThreadedEventLoopGroup.singleton.next()

    private func ask(_ resolver: NameResolver, _ host: String) -> (ConnectionResolver, EventLoopFuture<[SocketAddress]>)
    {
        let query = ConnectionResolver(loop: self.loop, entry: AddressBook().makeEntry(), names: resolver)
        _ = query.initiateAAAAQuery(host: host, port: 443)
        return (query, query.initiateAQuery(host: host, port: 443))
    }

    @Test("All waiters for a name share one look-up, also those that arrive after it has begun")
    func sharing() async throws {
        let lookUp = BlockedLookUp()
        let resolver = lookUp.resolver(threads: 4)
        let early = (0..<8).map { _ in self.ask(resolver, "a.example") }
        await lookUp.begins("a.example")
        let late = (0..<8).map { _ in self.ask(resolver, "a.example") }
        lookUp.release("a.example")
        for (_, addresses) in early + late { #expect(try await addresses.get().count == 1) }
        #expect(lookUp.asked == ["a.example"])
    }

    @Test("A name whose waiters have all left is not looked up")
    func abandoned() async throws {
        let lookUp = BlockedLookUp()
        let resolver = lookUp.resolver(threads: 1)
        let first = self.ask(resolver, "a.example")
        await lookUp.begins("a.example")
        let abandoned = (0..<20).map { self.ask(resolver, "b\($0).example") }
        let last = self.ask(resolver, "c.example")
        for (query, addresses) in abandoned {
            query.cancelQueries()
            await #expect(throws: WireError.self) { _ = try await addresses.get() }
        }
        lookUp.release("a.example", "c.example")
        #expect(try await first.1.get().count == 1)
        #expect(try await last.1.get().count == 1)
        #expect(lookUp.asked == ["a.example", "c.example"])
    }

    @Test("A connection that times out during its look-up does not wait for it")
    func closedConnection() async throws {
        let lookUp = BlockedLookUp()
        let resolver = lookUp.resolver(threads: 1)
        _ = self.ask(resolver, "a.example")
        await lookUp.begins("a.example")
        for _ in 0..<3 {
            let probe = ConnectionProbe(host: "b.example", port: 443, tls: TLSConfiguration())
            let beginning = await probe.open {
                $0.nameResolver = resolver
                $0.connectTimeout = .milliseconds(50)
            }
            #expect(beginning == .closed(.connectTimeout))
        }
        let last = self.ask(resolver, "c.example")
        lookUp.release("a.example", "b.example", "c.example")
        #expect(try await last.1.get().count == 1)
        #expect(lookUp.asked == ["a.example", "c.example"])
    }

    @Test("Connections succeed even if a look-up takes longer than the connect timeout")
    func slowerThanTheConnectTimeout() async throws {
        let server = try await EchoServer.start(names: ["slow.example"])
        let lookUp = BlockedLookUp()
        let resolver = lookUp.resolver(threads: 1)
        func open(_ time: TimeAmount) async -> ConnectionProbe.Beginning {
            let probe = ConnectionProbe(server: server, host: "slow.example")
            let beginning = await probe.open {
                $0.nameResolver = resolver
                $0.connectTimeout = time
            }
            if time < .minutes(1) { #expect(await probe.closeError?.message.contains("look-up") == true) }
            await probe.close()
            return beginning
        }
        // Eight workers of a pool try repeatedly during one slow look-up.
        for _ in 0..<3 {
            await withTaskGroup { group in
                for _ in 0..<8 { group.addTask { await open(.milliseconds(20)) } }
                for await beginning in group { #expect(beginning == .closed(.connectTimeout)) }
            }
        }
        async let next = open(.minutes(10))
        lookUp.release("slow.example")
        #expect(await next == .ready(maxConcurrentStreams: 100))
        #expect(lookUp.asked.count <= 2)
        await server.stop()
    }

    @Test("Blocked look-ups do not occupy the threads of NIO's pool")
    func otherThreads() async throws {
        let lookUp = BlockedLookUp()
        let resolver = lookUp.resolver(threads: 4)
        let waiting = (0..<40).map { self.ask(resolver, "n\($0).example") }
        await lookUp.begins("n0.example")
        #expect(try await NIOThreadPool.singleton.runIfActive { 7 } == 7)
        #expect(resolver.threadCount == 4)
        for number in 0..<40 { lookUp.release("n\(number).example") }
        for (_, addresses) in waiting { #expect(try await addresses.get().count == 1) }
    }

    // MARK: The machine

    /// The machine by reference, since `#expect` takes no mutating calls.
    private final class Machine {
        private var queue: LookUpQueue
        init(threads: Int) { self.queue = LookUpQueue(threadLimit: threads) }

        var threadCount: Int { self.queue.threadCount }
        func ask(_ host: String, _ waiter: UInt64) -> Bool {
            self.queue.ask(.init(host: host, port: 1), waiter: waiter)
        }
        func withdraw(_ host: String, _ waiter: UInt64) {
            self.queue.withdraw(.init(host: host, port: 1), waiter: waiter)
        }
        func next() -> String? { self.queue.next()?.host }
        func finish(_ host: String) -> [UInt64] { self.queue.finish(.init(host: host, port: 1)) }
        func threadFailed() -> [UInt64] { self.queue.threadFailed() }
    }

    @Test("A thread serves the names in order and ends when none is left")
    func order() {
        let queue = Machine(threads: 1)
        #expect(queue.ask("a", 1))
        #expect(!queue.ask("b", 2))
        #expect(!queue.ask("a", 3))
        #expect(queue.next() == "a")
        queue.withdraw("a", 1)
        queue.withdraw("a", 3)
        // No waiter is left, but the look-up still runs: new waiters share it.
        #expect(!queue.ask("a", 4))
        #expect(queue.finish("a") == [4])
        #expect(queue.next() == "b")
        #expect(queue.finish("b") == [2])
        #expect(queue.next() == nil)
        #expect(queue.threadCount == 0)
        #expect(queue.ask("c", 5))
    }

    @Test("If a thread fails to start, waiters fail unless another thread runs")
    func noThread() {
        let queue = Machine(threads: 2)
        #expect(queue.ask("a", 1))
        #expect(queue.threadFailed() == [1])
        #expect(queue.ask("a", 2))
        #expect(queue.next() == "a")
        #expect(queue.ask("b", 3))
        #expect(queue.threadFailed() == [])
        #expect(queue.finish("a") == [2])
        #expect(queue.next() == "b")
    }

    @Test("Each waiter is served once in any order of events", arguments: PropertyRun(commands: 4_000, runs: 2).seeds)
    func anyOrder(_ seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var queue = LookUpQueue(threadLimit: 3)
        var threads = 0
        var running: [LookUpQueue.Name] = []
        var waiting: [UInt64: LookUpQueue.Name] = [:]
        for waiter in 1...2000 as ClosedRange<UInt64> {
            switch Int.random(in: 0..<5, using: &random) {
            case 0, 1:
                let name = LookUpQueue.Name(host: "\(Int.random(in: 0..<6, using: &random))", port: 1)
                let needsThread = queue.ask(name, waiter: waiter)
                waiting[waiter] = name
                if needsThread {
                    threads += 1
                    running.append(contentsOf: [queue.next()].compactMap(\.self))
                }
            case 2:
                guard let one = waiting.keys.sorted().randomElement(using: &random), let name = waiting[one] else {
                    continue
                }
                queue.withdraw(name, waiter: one)
                waiting[one] = nil
            default:
                guard let index = running.indices.randomElement(using: &random) else { continue }
                let name = running.remove(at: index)
                let served = queue.finish(name)
                #expect(served.allSatisfy { waiting[$0] == name }, "SEED=\(seed) replays this")
                #expect(Set(served).count == served.count, "SEED=\(seed) replays this")
                for one in served { waiting[one] = nil }
                if let next = queue.next() { running.append(next) } else { threads -= 1 }
            }
            #expect(queue.threadCount == threads && threads <= 3, "SEED=\(seed) replays this")
            #expect(Set(running).count == running.count, "SEED=\(seed) replays this")
            #expect(running.count == threads, "SEED=\(seed) replays this")
            #expect(waiting.isEmpty || threads > 0, "SEED=\(seed) replays this")
        }
    }
}
