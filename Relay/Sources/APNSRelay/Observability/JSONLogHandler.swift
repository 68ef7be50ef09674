import Foundation
import Logging

/// Writes each log line to standard error, as a JSON object with `time`, `level`, `logger`, `message` and the metadata.
struct JSONLogHandler: LogHandler {
    let label: String
    var metadata: Logger.Metadata = [:]
    var metadataProvider: Logger.MetadataProvider?
    var logLevel = Logger.Level.info

    init(label: String) {
        self.label = label
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { self.metadata[key] }
        set { self.metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        var metadata = self.metadata
        metadata.merge(self.metadataProvider?.get() ?? [:]) { $1 }
        metadata.merge(event.metadata ?? [:]) { $1 }
        let line = Self.line(
            time: Date(),
            level: event.level,
            label: self.label,
            message: event.message.description,
            metadata: metadata
        )
        FileHandle.standardError.write(Data(line.utf8))
    }

    static func line(
        time: Date,
        level: Logger.Level,
        label: String,
        message: String,
        metadata: Logger.Metadata
    ) -> String {
        var fields = [
            ("time", time.formatted(.iso8601.year().month().day().time(includingFractionalSeconds: true))),
            ("level", level.rawValue), ("logger", label), ("message", message),
        ]
        let reserved = Set(fields.map(\.0))
        for (key, value) in metadata.sorted(by: { $0.key < $1.key }) {
            fields.append((reserved.contains(key) ? "metadata.\(key)" : key, "\(value)"))
        }
        return "{" + fields.map { "\(Self.quoted($0)):\(Self.quoted($1))" }.joined(separator: ",") + "}\n"
    }

    static func quoted(_ text: String) -> String {
        var result = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": result += "\\\""
            case "\\": result += "\\\\"
            case "\n": result += "\\n"
            case "\r": result += "\\r"
            case "\t": result += "\\t"
            case "\u{0}"..<"\u{20}":
                result += "\\u00" + (scalar.value < 16 ? "0" : "") + String(scalar.value, radix: 16)
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result + "\""
    }
}
