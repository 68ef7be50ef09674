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

    /// The status of a command that ends because of its settings. A file that must not be overwritten is a mistake in an
    /// option; all other errors are about the key, the certificate or the server.
    static func status(of codes: [APNSConfigurationError.Code]) -> ExitCode {
        codes.allSatisfy { $0 == .outputRefused } ? self.usage : self.configuration
    }

    static let help = """
        Exit status:
          0   all pushes were accepted
          1   at least one was rejected, refused as invalid or has an unknown
              outcome, and none is left to send
          64  an option or a setting is wrong
          74  a file could not be read or written to its end
          75  pushes are left to send: they were not sent or not processed, or APNs
              rejected them for a reason that passes
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
    /// The first message of each cause that APNs has not given.
    private var examples: [String: String] = [:]
    /// Pushes that were accepted, or failed, after more than one attempt.
    private(set) var triedAgain = 0
    /// Whether pushes with an unknown outcome count as left to send.
    var resendsUnknown = false
    /// The number of failed pushes that may be accepted as they are if they are sent again.
    private(set) var resendable = 0
    /// The number of pushes that were rejected because of the environment or the topic, and that are sent again once it
    /// is corrected.
    private(set) var misdirected = 0
    /// The first failure that only a change of the configuration can fix.
    private(set) var configurationFault: PushError?
    /// The first rejection because of the credential or the topic.
    private var configurationRejection: PushError?
    /// Whether a response of this run proved that the credential and the topic are valid.
    private var isConfigurationProven = false
    /// The number of lines of the input that have no outcome; nil if it is not known, since the input is a pipe that was
    /// not read to its end.
    var withoutOutcome: Int? = 0

    /// Whether a part of the input has no outcome. Another run can send it.
    var isIncomplete: Bool { self.withoutOutcome != 0 }

    /// The number of lines that are left to send; nil if it is not known.
    var remaining: Int? { self.withoutOutcome.map { $0 + self.resendable } }

    var total: Int { self.accepted + self.rejected + self.notProcessed + self.notSent + self.unknown }

    mutating func count(_ outcome: PushOutcome) {
        self.add(outcome.certainty, self.prospect(of: outcome), 1)
        if outcome.certainty == .accepted { self.isConfigurationProven = true }
        if outcome.attempts > 1 { self.triedAgain += 1 }
        self.countCause(of: outcome)
    }

    /// What another run does with the push.
    func prospect(of outcome: PushOutcome) -> LineProspect {
        LineProspect(outcome.certainty, outcome.advice, resendsUnknown: self.resendsUnknown)
    }

    /// Adds rows that already exist, or, with a negative count, removes rows that are replaced.
    mutating func add(_ certainty: Certainty, _ prospect: LineProspect, _ count: Int) {
        switch prospect {
        case .done: break
        case .remaining: self.resendable += count
        case .misdirected: self.misdirected += count
        }
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
        if isKnown, error.certainty != .rejected, self.examples[cause] == nil { self.examples[cause] = error.message }
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
        if error.isConfigurationFault { self.configurationFault = self.configurationFault ?? error }
    }

    /// Records that the run stops because of its configuration.
    mutating func stop(because fault: PushError) { self.configurationFault = self.configurationFault ?? fault }

    /// An error that only a change of the configuration can fix: a failure that stops the run; otherwise, the first
    /// rejection because of the credential or the topic, unless another response proved both valid.
    var configurationError: PushError? {
        self.configurationFault ?? (self.isConfigurationProven ? nil : self.configurationRejection)
    }

    var status: ExitCode {
        if self.configurationError != nil { return ExitStatus.configuration }
        if self.resendable > 0 || self.isIncomplete { return ExitStatus.resumable }
        return self.accepted < self.total ? ExitStatus.rejected : ExitStatus.success
    }

    /// `accepted 998, rejected 0, not-processed 0, not-sent 2, unknown 0; remaining 7, of them 5 without a row`
    var line: String {
        "accepted \(self.accepted), rejected \(self.rejected), not-processed \(self.notProcessed), "
            + "not-sent \(self.notSent), unknown \(self.unknown)" + self.remainder
    }

    private var remainder: String {
        guard let remaining, let withoutOutcome else {
            return "; remaining \(self.resendable) and all lines after them"
        }
        if remaining == 0 { return "" }
        return "; remaining \(remaining)" + (withoutOutcome > 0 ? ", of them \(withoutOutcome) without a row" : "")
    }

    /// What a run of `apns bulk` leaves to be done.
    var advice: [String] {
        var lines: [String] = []
        if let remaining {
            if remaining > 0 { lines.append("--resume sends \(Self.lines(remaining)) that remain.") }
        } else {
            lines.append("Stopped: --resume sends the rest of the tokens.")
        }
        if self.misdirected > 0 {
            lines.append(
                "--resume also resends \(Self.lines(self.misdirected)) whose device tokens do not match the environment "
                    + "or the topic."
            )
        }
        if self.unknown > 0, !self.resendsUnknown {
            lines.append("Only --resend-unknown resends \(Self.lines(self.unknown)) with an unknown outcome.")
        }
        return lines
    }

    private static func lines(_ count: Int) -> String { count == 1 ? "1 line" : "\(count) lines" }

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

    /// `410 Unregistered × 12`, and for a cause that APNs has not given, the message of the first such push.
    var causeLines: [String] {
        // The error of the whole run is printed by itself.
        let printed = self.configurationError?.message
        return self.sortedCauses.map { cause, count in
            let example = self.examples[cause].flatMap { $0 == printed ? nil : ": \($0)" } ?? ""
            return "\(cause) × \(count)\(example)"
        }
    }

    private static func cause(of error: PushError) -> String {
        guard error.certainty == .rejected, let rejection = error.rejection else {
            return "\(error.certainty.rawValue), \(error.validation?.code.rawValue ?? error.code.rawValue)"
        }
        return "\(rejection.status) \(rejection.reason?.rawValue ?? "without a reason")"
    }
}

extension PushError {
    /// Whether only a change of the configuration helps: further pushes would fail in the same way.
    var isConfigurationFault: Bool {
        let codes: [Code] = [.configuration, .credential, .suspectedMisconfiguration]
        return codes.contains(self.code) && self.passingCredentialState == nil
    }

    /// Whether APNs rejected the credential or the topic, not the device token or the payload, and a resend does not help.
    var isConfigurationRejection: Bool {
        guard let rejection, !self.canResend else { return false }
        let topicReasons: [RejectionReason?] = [.badTopic, .missingTopic, .topicDisallowed]
        return rejection.disposition == .credential || topicReasons.contains(rejection.reason)
    }
}
