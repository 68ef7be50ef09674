import APNSPool
import ArgumentParser

/// An invalid option or argument. The tool prints the error, which names the option, and exits with status 64.
typealias UsageError = ArgumentParser.ValidationError

/// The tool's exit statuses. The numbers above 63 are those of `sysexits.h`.
enum ExitStatus {
    static let success = ExitCode(0)
    static let rejected = ExitCode(1)
    static let usage = ExitCode(64)
    static let unavailable = ExitCode(69)
    static let inputOutput = ExitCode(74)
    static let resumable = ExitCode(75)
    static let configuration = ExitCode(78)
    /// The status that a shell reports for a process that SIGINT terminated.
    static let interrupted: Int32 = 130

    static let help = """
        Exit status:
          0   all pushes were accepted
          1   at least one was rejected, or refused as invalid
          64  an option or a setting is wrong
          74  a file could not be read or written to its end
          75  all pushes that failed can be resent; those with an unknown outcome
              may arrive twice
          78  the configuration is wrong: key, certificate, host, topic
        """
}

/// Counts outcomes as they arrive, and derives the exit status from them.
struct OutcomeCounts: Sendable {
    private(set) var accepted = 0
    private(set) var rejected = 0
    private(set) var notProcessed = 0
    private(set) var notSent = 0
    private(set) var unknown = 0
    /// The most causes that are counted by name. A limit is needed because APNs chooses the reasons.
    static let causeLimit = BulkSummary.reasonLimit
    /// The number of failed pushes by cause. Causes beyond `causeLimit` are counted together as `other`.
    private(set) var causes: [String: Int] = [:]
    /// Pushes that were accepted, or failed, after more than one attempt.
    private(set) var triedAgain = 0
    private var hasInvalid = false
    /// The first failure that only a change of the configuration can fix.
    private(set) var configurationFault: PushError?
    /// The first rejection because of the credential or the topic.
    private var configurationRejection: PushError?
    /// Whether a response of this run proved that the credential and the topic are valid.
    private var isConfigurationProven = false
    /// Whether a part of the input was left out. Another run can send it.
    var isIncomplete = false

    var total: Int { self.accepted + self.rejected + self.notProcessed + self.notSent + self.unknown }

    mutating func count(_ outcome: PushOutcome) {
        self.add(outcome.certainty, 1)
        if outcome.certainty == .accepted { self.isConfigurationProven = true }
        if outcome.attempts > 1 { self.triedAgain += 1 }
        self.countCause(of: outcome)
    }

    /// Adds rows that already exist, or, with a negative count, removes rows that are replaced.
    mutating func add(_ certainty: Certainty, _ count: Int) {
        switch certainty {
        case .accepted: self.accepted += count
        case .rejected: self.rejected += count
        case .notProcessed: self.notProcessed += count
        case .notSent: self.notSent += count
        case .unknown: self.unknown += count
        }
    }

    /// Records the cause of a failed push without counting the push itself.
    mutating func countCause(of outcome: PushOutcome) {
        guard let error = outcome.error else { return }
        let cause = Self.cause(of: error)
        let isKnown = self.causes.count < Self.causeLimit || self.causes[cause] != nil
        self.causes[isKnown ? cause : BulkSummary.otherReasons.rawValue, default: 0] += 1
        switch error.certainty {
        case .rejected where error.isConfigurationRejection:
            self.configurationRejection = self.configurationRejection ?? error
            return
        case .rejected:
            // APNs may send any other status before it checks the credential.
            if [400, 410].contains(error.rejection?.status) { self.isConfigurationProven = true }
            return
        case .accepted, .unknown: return
        case .notProcessed, .notSent: break
        }
        if error.isConfigurationFault {
            self.configurationFault = self.configurationFault ?? error
        } else if !error.canResend {
            self.hasInvalid = true
        }
    }

    /// An error that only a change of the configuration can fix: a failure that stops the run; otherwise, the first
    /// rejection because of the credential or the topic, unless another response proved both valid.
    var configurationError: PushError? {
        self.configurationFault ?? (self.isConfigurationProven ? nil : self.configurationRejection)
    }

    var status: ExitCode {
        if self.configurationError != nil { return ExitStatus.configuration }
        if self.rejected > 0 || self.hasInvalid { return ExitStatus.rejected }
        if self.accepted < self.total || self.isIncomplete { return ExitStatus.resumable }
        return ExitStatus.success
    }

    /// `accepted 998, rejected 2, not-processed 0, not-sent 0, unknown 0`
    var line: String {
        "accepted \(self.accepted), rejected \(self.rejected), not-processed \(self.notProcessed), "
            + "not-sent \(self.notSent), unknown \(self.unknown)"
    }

    /// The numbers of failures by name.
    var failures: [(name: String, count: Int)] {
        [
            ("rejected", self.rejected), ("not processed", self.notProcessed), ("not sent", self.notSent),
            ("unknown", self.unknown),
        ]
    }

    /// The causes, the most frequent first.
    var sortedCauses: [(cause: String, count: Int)] {
        self.causes.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.map { ($0.key, $0.value) }
    }

    /// `410 Unregistered × 12`
    var causeLines: [String] { self.sortedCauses.map { "\($0.cause) × \($0.count)" } }

    private static func cause(of error: PushError) -> String {
        guard error.certainty == .rejected, let rejection = error.rejection else {
            return "\(error.certainty.rawValue), \(error.code)"
        }
        return "\(rejection.status) \(rejection.reason?.rawValue ?? "without a reason")"
    }
}

extension PushError {
    /// Whether only a change of the configuration helps: further pushes would fail in the same way.
    var isConfigurationFault: Bool {
        [.configuration, .credential, .suspectedMisconfiguration].contains(self.code)
    }

    /// Whether APNs rejected the credential or the topic, not the device token or the payload.
    var isConfigurationRejection: Bool {
        guard let rejection else { return false }
        let topicReasons: [RejectionReason?] = [.badTopic, .missingTopic, .topicDisallowed]
        return rejection.disposition == .credential || topicReasons.contains(rejection.reason)
    }
}
