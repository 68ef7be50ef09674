import APNSSimulator
import Crypto

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// All that the tool does with a simulator of APNs, in one place.
struct LocalSimulator: Sendable {
    /// What it saw and did.
    struct Counts: Sendable {
        var connectionsOpened = 0
        var received = 0
        var processed = 0
        var answered503 = 0
        var goAways = 0
        var drops = 0
        var processedTwice = 0
    }

    private let key = SimulatedKey()
    private let simulator: Simulator

    var port: Int { self.simulator.port }
    var certificateAuthorityPEM: String { self.simulator.certificateAuthorityPEM }
    var keyID: String { self.key.keyID }
    var teamID: String { self.key.teamID }
    var privateKey: P256.Signing.PrivateKey { self.key.privateKey }
    /// The content of a .p8 file.
    var privateKeyPEM: String { self.key.privateKeyPEM }
    var openConnections: Int { self.simulator.openConnections }

    /// - Parameters:
    ///   - port: 0 takes any free one.
    ///   - wantsToken: requests need a provider token signed by `key`.
    ///   - recordsPushes: keeps each push, to count those that were processed twice.
    static func start(port: Int = 0, wantsToken: Bool = true, recordsPushes: Bool) async throws -> LocalSimulator {
        var configuration = Simulator.Configuration()
        configuration.port = port
        configuration.credential = wantsToken ? .providerToken : .none
        configuration.recordsPushes = recordsPushes
        let started = LocalSimulator(simulator: try await Simulator.start(configuration))
        if wantsToken { started.simulator.addKey(started.key) }
        return started
    }

    private init(simulator: Simulator) {
        self.simulator = simulator
    }

    func stop() async { await self.simulator.stop() }

    var counts: Counts {
        let ledger = self.simulator.ledger
        return Counts(
            connectionsOpened: ledger.connectionsOpened,
            received: ledger.pushesReceived,
            processed: ledger.pushesProcessed,
            answered503: ledger.answers[503] ?? 0,
            goAways: ledger.goAways,
            drops: ledger.drops,
            processedTwice: ledger.processedCounts.values.count { $0 > 1 }
        )
    }

    // MARK: Faults

    /// The first push to each of these tokens is answered 503.
    func inject503(tokens: [String]) {
        for token in tokens {
            self.simulator.inject(
                Fault(.answer(status: 503, reason: "ServiceUnavailable"), match: .init(deviceToken: token))
            )
        }
    }

    /// GOAWAY instead of an answer to the first push to this token; neither it nor what comes after it on its
    /// connection is processed.
    func injectGoAway(token: String) {
        self.simulator.inject(Fault(.goAway(reason: nil, refusesPush: true), match: .init(deviceToken: token)))
    }

    /// Faults as somebody wrote them: a JSON array, or one fault.
    ///
    /// - Returns: how many.
    func inject(json bytes: [UInt8]) throws -> Int {
        let decoder = JSONDecoder()
        let data = Data(bytes)
        let isArray = bytes.first { $0 > 0x20 } == UInt8(ascii: "[")
        let faults = try isArray ? decoder.decode([Fault].self, from: data) : [decoder.decode(Fault.self, from: data)]
        self.simulator.inject(faults)
        return faults.count
    }

    /// Ends the connection that was opened last, without a word. False if none is open.
    func dropNewestConnection() async -> Bool {
        for number in stride(from: self.counts.connectionsOpened, to: 0, by: -1)
        where await self.simulator.dropConnections(.connection(number)) > 0 {
            return true
        }
        return false
    }
}
