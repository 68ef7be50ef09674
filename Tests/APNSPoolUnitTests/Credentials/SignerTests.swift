import Foundation
import APNSTransport
import Logging
import SupervisedPool
import Synchronization
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// Keys that are not in a file: bytes, and signers that the program supplies.
struct SignerTests {
    private static let keyID = "9UC9ZLQ8YW"
    private static let teamID = "ABBM6U9RM5"

    /// A remote key that can be slow or fail.
    private final class RemoteKey: APNSTokenSigner {
        struct OutOfOrder: Error {}

        let key: ES256PrivateKey
        let givesDER: Bool
        private let latch: Latch?
        private let isFailing = Atomic<Bool>(false)
        private let callCount = Atomic<Int>(0)

        init(givesDER: Bool = false, latch: Latch? = nil) throws {
            self.key = try ES256PrivateKey()
            self.givesDER = givesDER
            self.latch = latch
        }

        var count: Int { self.callCount.load(ordering: .relaxed) }
        func fail() { self.isFailing.store(true, ordering: .relaxed) }

        func signature(for bytes: [UInt8]) async throws -> [UInt8] {
            self.callCount.wrappingAdd(1, ordering: .relaxed)
            await self.latch?.wait()
            try Task.checkCancellation()
            if self.isFailing.load(ordering: .relaxed) { throw OutOfOrder() }
            let signature = try self.key.signature(of: bytes)
            return self.givesDER ? try signature.der() : signature.rawRepresentation
        }
    }

    private func authentication(_ signer: RemoteKey) -> APNSAuthentication {
        .token(signer: signer, keyID: Self.keyID, teamID: Self.teamID)
    }

    @Test(arguments: [false, true])
    func rawAndDERSignaturesMakeAToken(givesDER: Bool) async throws {
        let remote = try RemoteKey(givesDER: givesDER)
        let signer = try #require(try self.authentication(remote).makeSigner())
        // Leading zeros shorten the DER form. Some of 300 tokens have them.
        for time in 0..<300 {
            let parts = try await signer.jwt(issuedAt: Int64(time)).split(separator: ".")
            var text = parts[2].replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
            while text.count % 4 != 0 { text += "=" }
            let raw = try #require(Data(base64Encoded: text))
            let signature = try #require(ES256Signature(rawRepresentation: Array(raw)))
            #expect(remote.key.publicKey.isValid(signature, of: Array("\(parts[0]).\(parts[1])".utf8)))
        }
    }

    @Test func keyBytesAreReadAsPEMDERAndBase64() throws {
        let pem = KeyTexts.p256
        let body = pem.split(separator: "\n").dropFirst().dropLast().joined()
        let der = Array(try #require(Data(base64Encoded: body)))
        let forms: [[UInt8]] = [Array(pem.utf8), der, Array(body.utf8)]
        for bytes in forms {
            let authentication = APNSAuthentication.token(
                privateKeyBytes: bytes,
                keyID: Self.keyID,
                teamID: Self.teamID
            )
            #expect(try authentication.makeSigner()?.publicKey == ES256PrivateKey(der: der).publicKey.rawRepresentation)
        }
        let error = try configurationError(
            .token(privateKeyBytes: [0x30, 0x03, 1, 2], keyID: Self.keyID, teamID: Self.teamID)
        )
        #expect(error.code == .keyDamaged && error.setting == "authentication.privateKeyBytes")
    }

    @Test func aSlowSignerCountsTowardsThePushDeadline() async throws {
        let latch = Latch()
        let remote = try RemoteKey(latch: latch)
        try await withServer(configure: { $0.authentication = self.authentication(remote) }) { client, server in
            let late = await client.deliver(
                samplePush(),
                to: deviceToken,
                options: DeliveryOptions(deadline: .milliseconds(100))
            )
            #expect(late.error?.code == .deadlineExceeded && late.certainty == .notSent)
            async let patient = client.deliver(samplePush(), to: deviceToken)
            latch.open()
            #expect(await patient.certainty == .accepted)
            #expect(remote.count == 1)
        }
    }

    @Test func theErrorNamesTheSignersFailure() async throws {
        let remote = try RemoteKey()
        remote.fail()
        try await withServer(configure: { $0.authentication = self.authentication(remote) }) { client, server in
            let outcome = await client.deliver(samplePush(), to: deviceToken)
            #expect(outcome.error?.code == .credential)
            #expect(outcome.error?.message.contains("OutOfOrder") == true)
        }
    }

    @Test func aFailingNewSignerDoesNotReplaceTheOldOne() async throws {
        let old = try RemoteKey()
        let new = try RemoteKey()
        new.fail()
        let clock = ManualClock()
        try await withServer(
            configure: {
                $0.authentication = self.authentication(old)
                $0.use(clock)
            }
        ) { client, server in
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            let result = Task {
                try await client.replaceAuthentication(self.authentication(new), within: .seconds(20))
            }
            await until {
                guard let candidate = client.runtime.credentials.candidate else { return false }
                let isReady = await candidate.pool.status().workers.contains { $0.state == .ready }
                return isReady && candidate.tokens.status.lastFailure != nil
            }
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            clock.advance(by: .seconds(21))
            let error = await #expect(throws: APNSAuthenticationError.self) { try await result.value }
            #expect(error?.code == .noVerdict && error?.message.contains("OutOfOrder") == true)
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            await server.wait { $0.openConnections == 1 }
        }
    }

    @Test func whileASignerFailsTheOldTokenIsUsedFor58Minutes() async throws {
        let clock = ManualClock()
        let start = clock.now
        let remote = try RemoteKey()
        try await withServer(
            configure: {
                $0.authentication = self.authentication(remote)
                $0.use(clock)
                $0.wallClock = {
                    1_800_000_000 + start.duration(to: clock.now).components.seconds
                }
            }
        ) { client, server in
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            remote.fail()
            for minutes in [51, 54, 57] {
                clock.advance(by: .seconds(60 * minutes) - start.duration(to: clock.now))
                #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted, "\(minutes)")
            }
            #expect(remote.count > 1)
            clock.advance(by: .seconds(60 * 58) - start.duration(to: clock.now))
            #expect(await client.deliver(samplePush(), to: deviceToken).error?.code == .credential)
            #expect(Set(server.record.pushes.map { $0.field("authorization") }).count == 1)
        }
    }

    /// With a token that is still valid, no caller waits for more than ten seconds.
    @Test func aHangingSignerDoesNotBlockPushes() async throws {
        let clock = ManualClock()
        let cache = ProviderTokenCache(
            clock: clock,
            wallClock: { 1_800_000_000 + clock.now.nanoseconds / 1_000_000_000 - 1_000 }
        )
        let signer = ProviderTokenSigner(signer: UserSigner(try RemoteKey()), identifiers: try .sample)
        let actor = TokenActor(signer: signer, cache: cache, clock: clock)
        let context = ChildContext(id: "token")
        async let life: Void = actor.run(context)
        let token = try #require(await cache.token())
        // From now on the signer hangs.
        let stuck = try RemoteKey(latch: Latch())
        let second = TokenActor(
            signer: ProviderTokenSigner(signer: UserSigner(stuck), identifiers: try .sample),
            cache: cache,
            clock: clock
        )
        context.requestShutdown()
        try await life
        let next = ChildContext(id: "token", generation: 2)
        async let secondRun: Void = second.run(next)
        clock.advance(by: .seconds(51 * 60))
        async let late = cache.token()
        await until { stuck.count == 1 }
        clock.advance(by: .seconds(10))
        #expect(try await late === token)
        #expect(stuck.count == 1)
        await until { cache.status.lastFailure != nil }
        next.requestShutdown()
        try await secondRun
    }
}

/// The client checks the token of a source before it uses it.
struct ProviderTokenSourceTests {
    private let clock = SettableClock()

    private struct Given: ProviderTokenSource {
        let makeToken: @Sendable (ProviderTokenRequest) async throws -> SharedProviderToken
        func token(for request: ProviderTokenRequest) async throws -> SharedProviderToken {
            try await makeToken(request)
        }
    }

    private func request(
        _ signer: ScriptedSigner = ScriptedSigner(),
        refused: String? = nil
    ) throws -> ProviderTokenRequest {
        ProviderTokenRequest(
            signer: try signer.signer(),
            now: clock.wall,
            refreshAge: .seconds(3000),
            refused: refused
        )
    }

    private func token(_ jwt: String = "a.b.c", age: Int64, keyID: String = "9UC9ZLQ8YW") -> SharedProviderToken {
        SharedProviderToken(jwt: jwt, keyID: keyID, teamID: "ABBM6U9RM5", issuedAt: clock.wall - age)
    }

    @Test func onlyAValidTokenIsAccepted() throws {
        let request = try self.request(refused: "refused")
        #expect(request.accepts(token(age: 0)))
        #expect(request.accepts(token(age: 2999)))
        #expect(!request.accepts(token(age: 3000)))
        // The tolerance is one minute ahead, because the clock may have been set back.
        #expect(request.accepts(token(age: -60)))
        #expect(!request.accepts(token(age: -61)))
        #expect(!request.accepts(token("refused", age: 0)))
        #expect(!request.accepts(token(age: 0, keyID: "OTHERKEY01")))
        #expect(
            !request.accepts(SharedProviderToken(jwt: "x", keyID: "9UC9ZLQ8YW", teamID: "ABBM6U9RM5", issuedAt: .min))
        )
        #expect(
            !request.accepts(SharedProviderToken(jwt: "x", keyID: "9UC9ZLQ8YW", teamID: "ABBM6U9RM5", issuedAt: .max))
        )
    }

    private func jwt(_ cache: ProviderTokenCache) async -> String? {
        try? await cache.token()?.jwt
    }

    private func withActor(
        _ source: any ProviderTokenSource,
        _ body: (ProviderTokenCache) async throws -> Void
    ) async throws {
        let cache = ProviderTokenCache(clock: clock, wallClock: { [clock] in clock.wall })
        let actor = TokenActor(signer: try ScriptedSigner().signer(), source: source, cache: cache, clock: clock)
        let context = ChildContext(id: "token")
        async let life: Void = actor.run(context)
        do {
            try await body(cache)
        } catch {
            context.requestShutdown()
            throw error
        }
        context.requestShutdown()
        try await life
    }

    @Test func theAgeOfASharedTokenCountsFromItsSignature() async throws {
        let callCount = Atomic<Int>(0)
        let source = Given { request in
            callCount.wrappingAdd(1, ordering: .relaxed)
            let old = SharedProviderToken(
                jwt: "old",
                keyID: request.keyID,
                teamID: request.teamID,
                issuedAt: 1_800_000_000 - 40 * 60
            )
            return request.accepts(old) ? old : try await request.sign()
        }
        try await self.withActor(source) { cache in
            #expect(await jwt(cache) == "old")
            clock.advance(minutes: 9)
            #expect(await jwt(cache) == "old")
            #expect(callCount.load(ordering: .relaxed) == 1)
            // 50 minutes after its signature, even if another process signed it.
            clock.advance(minutes: 1)
            #expect(await jwt(cache) != "old")
            #expect(callCount.load(ordering: .relaxed) == 2)
        }
    }

    @Test func aRefusedTokenIsNotReused() async throws {
        let source = Given { request in
            let old = SharedProviderToken(
                jwt: "old",
                keyID: request.keyID,
                teamID: request.teamID,
                issuedAt: 1_800_000_000 - 600
            )
            return request.accepts(old) ? old : try await request.sign()
        }
        try await self.withActor(source) { cache in
            let old = try #require(await cache.token())
            #expect(cache.rejected(.expiredProviderToken, generation: old.generation) == .replaced)
            #expect(await jwt(cache) != "old")
        }
    }

    @Test(arguments: ["other key", "too old", "from the future", "no token"])
    func invalidTokensOfASourceAreRejected(_ kind: String) async throws {
        let source = Given { request in
            switch kind {
            case "other key":
                SharedProviderToken(jwt: "x", keyID: "OTHERKEY01", teamID: request.teamID, issuedAt: request.now)
            case "too old":
                SharedProviderToken(
                    jwt: "x",
                    keyID: request.keyID,
                    teamID: request.teamID,
                    issuedAt: request.now - 59 * 60
                )
            case "from the future":
                SharedProviderToken(jwt: "x", keyID: request.keyID, teamID: request.teamID, issuedAt: .max)
            default:
                SharedProviderToken(
                    jwt: "x\r\ny: z",
                    keyID: request.keyID,
                    teamID: request.teamID,
                    issuedAt: request.now
                )
            }
        }
        try await self.withActor(source) { cache in
            let error = await #expect(throws: TokenError.self) { try await cache.token() }
            #expect(error?.message.contains("token source") == true)
        }
    }

    @Test func aSourceWithoutANewTokenIsNotCalledForEachPush() async throws {
        let callCount = Atomic<Int>(0)
        let source = Given { request in
            callCount.wrappingAdd(1, ordering: .relaxed)
            return SharedProviderToken(
                jwt: "old",
                keyID: request.keyID,
                teamID: request.teamID,
                issuedAt: 1_800_000_000
            )
        }
        try await self.withActor(source) { cache in
            #expect(await jwt(cache) == "old")
            clock.advance(minutes: 51)
            for _ in 0..<100 { #expect(await jwt(cache) == "old") }
            #expect(callCount.load(ordering: .relaxed) == 2)
            // The token is used until it is 58 minutes old.
            clock.advance(minutes: 8)
            await #expect(throws: TokenError.self) { try await cache.token() }
        }
    }

    /// Counts concurrent calls. Every call but the first waits for the latch and ignores cancellation.
    private final class SlowSource: ProviderTokenSource {
        let latch = Latch()
        let calls = Atomic<Int>(0)
        let most = Atomic<Int>(0)
        private let running = Atomic<Int>(0)

        func token(for request: ProviderTokenRequest) async throws -> SharedProviderToken {
            let count = self.running.wrappingAdd(1, ordering: .relaxed).newValue
            defer { self.running.wrappingSubtract(1, ordering: .relaxed) }
            self.most.max(count, ordering: .relaxed)
            let number = self.calls.wrappingAdd(1, ordering: .relaxed).newValue
            if number > 1 {
                let latch = self.latch
                _ = await Task { await latch.wait() }.value
            }
            return try await request.sign()
        }
    }

    @Test("A slow source is not called again before it returns, and its late token is accepted")
    func slowSourceIsCalledOnce() async throws {
        let clock = ManualClock()
        let source = SlowSource()
        let cache = ProviderTokenCache(
            clock: clock,
            wallClock: { 1_800_000_000 + clock.now.nanoseconds / 1_000_000_000 }
        )
        let actor = TokenActor(signer: try ScriptedSigner().signer(), source: source, cache: cache, clock: clock)
        let context = ChildContext(id: "token")
        async let life: Void = actor.run(context)
        let first = try #require(await cache.token())
        clock.advance(by: .seconds(51 * 60))
        async let due = cache.token()
        await until { source.calls.load(ordering: .relaxed) == 2 }
        clock.advance(by: .seconds(10))
        #expect(try await due === first)
        // The next call is due.
        clock.advance(by: .seconds(6))
        let second = Task { try await cache.token() }
        #expect(await ends { _ = try? await second.value })
        #expect(source.most.load(ordering: .relaxed) == 1)
        source.latch.open()
        #expect(try await second.value === first)
        await until { cache.status.generation == 2 }
        context.requestShutdown()
        try await life
    }

    // MARK: The shared file

    @Test("A token in a shared file is not used for another key with the same ids")
    func fileOfAnotherKey() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let source = SharedFileTokenSource(path: folder.appendingPathComponent("token").path)
        let keys = try (0..<2).map { _ in try ES256PrivateKey() }
        let requests = try keys.map {
            ProviderTokenRequest(
                signer: ProviderTokenSigner(key: $0, identifiers: try .sample),
                now: clock.wall,
                refreshAge: .seconds(3000),
                refused: nil
            )
        }
        let first = try await source.token(for: requests[0])
        #expect(try await source.token(for: requests[0]) == first)
        #expect(try await source.token(for: requests[1]) != first)
        #expect(!requests[1].accepts(first))
    }

    @Test func aTokenFileIsReadBackAndDamageIsDetected() throws {
        let token = token(age: 5)
        let bytes = try SharedTokenFile.bytes(of: token)
        #expect(SharedTokenFile.token(in: bytes[...]) == token)
        for count in 0..<bytes.count { #expect(SharedTokenFile.token(in: bytes[..<count]) == nil) }
        for index in bytes.indices {
            var damaged = bytes
            damaged[index] ^= 1
            #expect(SharedTokenFile.token(in: damaged[...]) == nil, "\(index)")
        }
        #expect(SharedTokenFile.token(in: (bytes + [0x0A])[...]) == nil)
    }

    @Test func concurrentRequestsForASharedFileSignOnce() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        var source = SharedFileTokenSource(path: folder.appendingPathComponent("token").path)
        source.lockTimeout = Patience.limit
        let signer = ScriptedSigner()
        let request = try self.request(signer)
        let tokens = try await withThrowingTaskGroup(of: SharedProviderToken.self) { group in
            for _ in 0..<20 { group.addTask { [source] in try await source.token(for: request) } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(Set(tokens).count == 1 && signer.count == 1)
        // The clock is set back by an hour: a token from the future is replaced once.
        clock.setWall(back: 3600)
        let back = try self.request(signer)
        let second = try await source.token(for: back)
        #expect(second.issuedAt == clock.wall)
        #expect(try await source.token(for: back) == second)
        #expect(signer.count == 2)
    }

    @Test func aTokenThatCannotBeWrittenIsSharedByTheProcess() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        let path = folder.appendingPathComponent("token").path
        let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        // A folder in the file's place.
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let signer = ScriptedSigner()
        let request = try self.request(signer)
        var tokens: Set<SharedProviderToken> = []
        for _ in 0..<3 {
            tokens.insert(try await SharedFileTokenSource(path: path, logger: quiet).token(for: request))
        }
        #expect(tokens.count == 1 && signer.count == 1)
        // It is written as soon as that works, so that other processes have it.
        try FileManager.default.removeItem(atPath: path)
        let source = SharedFileTokenSource(path: path, logger: quiet)
        #expect(tokens.contains(try await source.token(for: request)))
        #expect(source.read() == tokens.first)
        #expect(signer.count == 1)
    }

    @Test func theErrorNamesAMissingDirectory() async throws {
        let source = SharedFileTokenSource(path: "/nowhere/token")
        let error = await #expect(throws: TokenError.self) { try await source.token(for: try self.request()) }
        #expect(error?.message.contains("/nowhere/token.lock") == true)
    }

    @Test func aLockThatIsNeverReleasedEndsInAnError() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appendingPathComponent("token").path
        let latch = Latch()
        let holder = SharedFileTokenSource(path: path)
        let isHeld = Latch()
        let slow = ProviderTokenSigner(identifiers: try .sample) { _ in
            isHeld.open()
            await latch.wait()
            return [UInt8](repeating: 7, count: 64)
        }
        let now = clock.wall
        let held = Task {
            try await holder.token(
                for: ProviderTokenRequest(signer: slow, now: now, refreshAge: .seconds(3000), refused: nil)
            )
        }
        await isHeld.wait()
        let waiting = ManualClock()
        var other = SharedFileTokenSource(path: path)
        other.clock = waiting
        let isOver = Latch()
        let late = Task { [other] in
            defer { isOver.open() }
            return try await other.token(for: try self.request())
        }
        // The wait may not have begun when the clock moves for the first time.
        await until {
            waiting.advance(by: .seconds(11))
            return isOver.isOpen
        }
        let error = await #expect(throws: TokenError.self) { try await late.value }
        #expect(error?.message.contains("Another process holds") == true)
        latch.open()
        #expect(try await holder.token(for: try self.request()) == (try await held.value))
    }
}
