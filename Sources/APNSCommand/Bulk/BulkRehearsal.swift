import APNSPool
import ArgumentParser

/// The checks of `apns bulk --dry-run`: everything that can be found without sending.
struct BulkRehearsal {
    /// The most invalid lines that are shown.
    private static let mostShown = 20

    let run: BulkJobManifest
    let push: PreparedPush
    let endpoint: String
    private(set) var toSend = 0
    private(set) var done = 0
    private(set) var invalid = 0
    private var complaints: [String] = []

    init(run: BulkJobManifest, push: PreparedPush, endpoint: String) {
        self.run = run
        self.push = push
        self.endpoint = endpoint
    }

    mutating func read(_ reader: LineReader, path: String, earlier: EarlierResults?) throws {
        while true {
            switch reader.next() {
            case .stalled:
                reader.waitForInput()
            case .end:
                if let error = reader.failure {
                    throw InputOutputError(description: "--tokens: \(Files.name(path)) cannot be read: \(error)")
                }
                return
            case .line(let token, let number):
                if let earlier {
                    guard earlier.isRow(ofLine: number, for: token) else {
                        throw UsageError(
                            "--tokens: line \(number) of \(Files.name(path)) is not the token of its results row."
                        )
                    }
                    if case .skip = earlier.plan(forLine: number) {
                        self.done += 1
                        continue
                    }
                }
                self.check(token, number)
            }
        }
    }

    private mutating func check(_ token: String, _ number: Int) {
        do {
            _ = try DeviceToken(token)
            self.toSend += 1
        } catch {
            self.invalid += 1
            if self.invalid <= Self.mostShown {
                self.complaints.append("  line \(number), '\(token.prefix(40))': \(error)")
            }
        }
    }

    struct Summary: Encodable {
        var dryRun = true
        var toSend: Int
        var invalid: Int
        var done: Int
        var endpoint: String
        var topic: String
        var pushType: String
        var payloadBytes: Int
    }

    var summary: Summary {
        Summary(
            toSend: self.toSend,
            invalid: self.invalid,
            done: self.done,
            endpoint: self.endpoint,
            topic: self.push.topic,
            pushType: self.push.pushType.rawValue,
            payloadBytes: self.push.payload.count
        )
    }

    var text: String {
        var lines = [
            "Nothing was sent. Without --dry-run, this run would send:",
            "  \(self.toSend) pushes to \(self.endpoint)",
            "  topic \(self.push.topic), type \(self.push.pushType), payload of \(self.push.payload.count) bytes",
        ]
        if self.done > 0 { lines.append("  \(self.done) lines were done by an earlier run") }
        if self.invalid > 0 {
            lines.append("\(self.invalid == 1 ? "1 line has" : "\(self.invalid) lines have") no valid device token:")
            lines += self.complaints
            if self.invalid > Self.mostShown { lines.append("  …") }
        }
        return lines.joined(separator: "\n")
    }
}
