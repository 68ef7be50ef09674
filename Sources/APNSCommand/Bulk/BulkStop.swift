import APNSPool

/// Why a run of `apns bulk` stops before the end of its tokens.
///
/// A run waits while pushes cannot be sent, for as long as that takes. It stops only if waiting is pointless or takes
/// longer than anybody expects of a running command. Pure.
enum BulkStop: Equatable {
    /// Only a change of the configuration helps.
    case configuration(PushError)
    /// APNs accepts no new provider token for a while (429 `TooManyProviderTokenUpdates`).
    case tokenUpdates(PushError)
    /// APNs considers new provider tokens expired (403 `ExpiredProviderToken`), so a clock is wrong.
    case clock(PushError)

    /// How long a run waits for a credential that may work again without a change.
    static let patience = Duration.seconds(60)

    /// Decides whether a hold ends the run; nil if the run goes on.
    ///
    /// - Parameters:
    ///   - hold: why the bulk call sends nothing; see `BulkProgress.hold`.
    ///   - lasted: how long the hold has had this cause.
    init?(_ hold: PushError, lasted: Duration) {
        guard let state = hold.passingCredentialState else {
            guard hold.isConfigurationFault else { return nil }
            self = .configuration(hold)
            return
        }
        guard lasted >= Self.patience || hold.retryAfter ?? .zero > Self.patience else { return nil }
        switch state {
        case .tooManyTokens: self = .tokenUpdates(hold)
        case .expiredToken: self = .clock(hold)
        }
    }

    /// Whether the run ends with the status of a wrong configuration.
    var isConfigurationFault: Bool {
        if case .tokenUpdates = self { false } else { true }
    }

    /// The message for the user.
    ///
    /// - Parameters:
    ///   - now: the time, in seconds since 1970.
    ///   - clockTime: writes a time in seconds since 1970 as the time of day at this place.
    func message(now: Int64, clockTime: (Int64) -> String) -> String {
        switch self {
        case .configuration(let error):
            return error.message
        case .clock(let error):
            return """
                \(error.message). APNs considers new provider tokens expired: check this machine's clock. \
                `apns doctor` compares it with the server's.
                """
        case .tokenUpdates(let error):
            let hint = "With --token-file, all runs and processes with this key share one provider token."
            guard let wait = error.retryAfter else {
                return "\(error.message). No new provider token is possible for up to 20 minutes. \(hint)"
            }
            let seconds = max(wait.components.seconds, 0)
            let minutes = max((seconds + 59) / 60, 1)
            return """
                \(error.message). No new provider token is possible until \(clockTime(now + seconds)), for \
                \(minutes) \(minutes == 1 ? "minute" : "minutes"). \(hint)
                """
        }
    }
}

/// Measures how long a hold has had the same cause. Pure.
struct HoldWatch {
    private var cause: (code: PushError.Code, state: PushError.CredentialState?)?
    private var began: ContinuousClock.Instant?

    /// Returns why the run stops; nil if it goes on.
    ///
    /// - Parameter hold: the present hold; nil while pushes are sent.
    mutating func stop(_ hold: PushError?, now: ContinuousClock.Instant) -> BulkStop? {
        guard let hold else {
            self.cause = nil
            return nil
        }
        let cause = (hold.code, hold.passingCredentialState)
        if self.cause?.code != cause.0 || self.cause?.state != cause.1 {
            self.cause = cause
            self.began = now
        }
        return BulkStop(hold, lasted: self.began?.duration(to: now) ?? .zero)
    }
}

extension PushError {
    /// A state of the credential that ends without a change of the configuration.
    enum CredentialState {
        case tooManyTokens
        case expiredToken
    }

    /// The state of the credential because of which nothing is sent; nil for every other error.
    ///
    /// The error of a hold has no response, so its message names the reason.
    var passingCredentialState: CredentialState? {
        guard self.code == .credential else { return nil }
        func isBecause(of reason: RejectionReason) -> Bool {
            self.reason.map { $0 == reason } ?? self.message.contains(reason.rawValue)
        }
        if isBecause(of: .tooManyProviderTokenUpdates) { return .tooManyTokens }
        if isBecause(of: .expiredProviderToken) { return .expiredToken }
        return nil
    }
}
