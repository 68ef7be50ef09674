import Foundation
import NIOCore
import NIOPosix
import Synchronization
import TestSupport
import Testing

@testable import APNSTransport

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
        let query = ConnectionResolver(loop: self.loop, names: resolver)
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
        for number in 0..<40 { lookUp.release("n\(number).example") }
        for (_, addresses) in waiting { #expect(try await addresses.get().count == 1) }
    }

    @Test("A look-up without requests goes on, and later requests share it")
    func withdrawn() async throws {
        let lookUp = BlockedLookUp()
        let resolver = lookUp.resolver(threads: 1)
        let first = self.ask(resolver, "a.example")
        await lookUp.begins("a.example")
        first.0.cancelQueries()
        await #expect(throws: WireError.self) { _ = try await first.1.get() }
        let later = self.ask(resolver, "a.example")
        lookUp.release("a.example")
        #expect(try await later.1.get().count == 1)
        #expect(lookUp.asked == ["a.example"])
    }

    @Test("Each address of a name is sometimes tried first")
    func shuffled() async throws {
        let addresses = try (1...4).map { try SocketAddress(ipAddress: "127.0.0.\($0)", port: 443) }
        let resolver = NameResolver { _, _ in .success(addresses) }
        var firsts: [String: Int] = [:]
        for number in 0..<400 {
            let found = try await self.ask(resolver, "\(number).example").1.get().compactMap(\.ipAddress)
            #expect(Set(found).count == 4)
            firsts[found[0], default: 0] += 1
        }
        // Fewer than 30 of 400 happen in less than one of 10^15 runs.
        #expect(firsts.count == 4 && firsts.values.allSatisfy { $0 > 30 }, "\(firsts)")
    }

    @Test("A look-up that fails ends the connection")
    func failure() async throws {
        let probe = ConnectionProbe(host: "many.example.com", port: 443, tls: TLSConfiguration())
        let beginning = await probe.open {
            $0.nameResolver = NameResolver { host, _ in .failure(WireError(.hostNotFound, "no \(host)")) }
        }
        #expect(beginning == .closed(.hostNotFound))
    }
}
