import APNSModel
import APNSSimulator

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// A simulator of APNs with all operations that the tool needs.
struct LocalSimulator: Sendable {
    /// What the simulator has received and done.
    struct Counts: Sendable {
        var connectionsOpened = 0
        /// Pushes, including broadcasts.
        var received = 0
        var accepted = 0
        var channelCalls = 0
        var responses503 = 0
        var goAways = 0
        var drops = 0
        var processedTwice = 0
        /// Different provider tokens.
        var providerTokens = 0
        /// Applied faults by kind, by their names in scripts.
        var faults: [String: Int] = [:]
    }

    private let key: SimulatedKey
    let simulator: Simulator

    var port: Int { self.simulator.port }
    var certificateAuthorityPEM: String { self.simulator.certificateAuthorityPEM }
    var certificateAuthorityKeyPEM: String { self.simulator.certificateAuthorityKeyPEM }
    var keyID: String { self.key.keyID }
    var teamID: String { self.key.teamID }
    /// The content of a .p8 file.
    var p8: String { self.key.p8 }
    var openConnections: Int { self.simulator.openConnections }

    /// - Parameters:
    ///   - port: the port; 0 for any free one.
    ///   - wantsToken: whether requests need a provider token signed by `key`.
    ///   - limitsTokenUpdates: whether a second provider token of `key` within 20 minutes is rejected.
    ///   - offlineStorage: what APNs stores for virtual devices that are offline.
    ///   - host: the address to listen on.
    ///   - names: host names and addresses in the certificate, besides those of this machine's loopback interface.
    ///   - recording: what the ledger records. Pushes that were processed twice are counted unless it is `counts`.
    ///   - keep: how many pushes the ledger keeps; nil for all.
    ///   - faults: the initial faults.
    ///   - seed: the seed of the faults.
    ///   - saved: the certificate authority and key of an earlier simulator; nil creates new ones.
    static func start(
        port: Int = 0,
        wantsToken: Bool = true,
        limitsTokenUpdates: Bool = false,
        offlineStorage: OfflineStorage = .latest,
        host: String = "127.0.0.1",
        names: [String] = [],
        recording: Simulator.Recording,
        keep: Int? = nil,
        faults: FaultScript = FaultScript(),
        seed: UInt64 = 1,
        saved: SavedCredentials? = nil
    ) async throws -> LocalSimulator {
        var configuration = Simulator.Configuration()
        configuration.port = port
        configuration.certificateAuthority = saved?.authority
        let key = saved?.key ?? SimulatedKey()
        configuration.credential = wantsToken ? .keys([Simulator.Key(key)]) : .none
        configuration.limitsProviderTokenUpdates = limitsTokenUpdates
        configuration.offlineStorage = offlineStorage
        configuration.host = host
        configuration.certificateNames += names
        configuration.recording = recording
        configuration.keep = keep
        configuration.faults = faults
        configuration.seed = seed
        return LocalSimulator(key: key, simulator: try await Simulator.start(configuration))
    }

    private init(key: SimulatedKey, simulator: Simulator) {
        self.key = key
        self.simulator = simulator
    }

    func stop() async { await self.simulator.stop() }

    var counts: Counts {
        let ledger = self.simulator.record
        return Counts(
            connectionsOpened: ledger.connectionsOpened,
            received: ledger.requestsReceived - ledger.channelCallsReceived,
            accepted: ledger.requestsProcessed - ledger.channelCallsProcessed,
            channelCalls: ledger.channelCallsReceived,
            responses503: ledger.responses[503] ?? 0,
            goAways: ledger.goAwaysSent,
            drops: ledger.connectionsDropped,
            processedTwice: ledger.duplicates.count,
            providerTokens: ledger.providerTokens,
            faults: ledger.faults
        )
    }

    // MARK: Faults

    /// The first push to each of these tokens gets 503.
    func inject503(tokens: [String]) {
        for token in tokens {
            self.simulator.inject(
                Fault(.respond(.serviceUnavailable), when: FaultTrigger(deviceTokens: [token]))
            )
        }
    }

    /// The first push to this token gets GOAWAY instead of a response. Neither it nor any later request on its
    /// connection is processed.
    func injectGoAway(token: String) {
        self.simulator.inject(Fault(.goAway(.beforeThisRequest), when: FaultTrigger(deviceTokens: [token])))
    }

    /// Drops the connection that was opened last, without GOAWAY. Returns false if none is open.
    func dropNewestConnection() async -> Bool {
        guard let number = self.simulator.connectionNumbers.last else { return false }
        return await self.simulator.dropConnections(.number(number)) > 0
    }
}
