import Logging
import TestSupport

/// Records the client's log.
struct RecordingLog: LogHandler {
    struct Line: Sendable {
        var level: Logger.Level
        var message: String
        var metadata: Logger.Metadata
    }

    let lines: Journal<Line>
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.notice

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { self.metadata[key] }
        set { self.metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        self.lines.write(
            Line(level: event.level, message: "\(event.message)", metadata: event.metadata ?? [:])
        )
    }

    /// A logger and the lines that it has logged.
    static func make() -> (Logger, Journal<Line>) {
        let lines = Journal<Line>()
        return (Logger(label: "test") { _ in RecordingLog(lines: lines) }, lines)
    }
}

extension Journal<RecordingLog.Line> {
    func count(_ level: Logger.Level, containing text: String) -> Int {
        self.entries.count { $0.level == level && $0.message.contains(text) }
    }
}
