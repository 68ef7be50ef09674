/// Names and values as Prometheus' text format (version 0.0.4) writes them.
enum PrometheusFormat {
    static let contentType = "text/plain; version=0.0.4; charset=utf-8"

    /// A valid name: letters, digits and underscores, with no digit at the beginning. Other characters become
    /// underscores.
    static func name(_ text: String) -> String {
        let name = String(text.map { $0.isASCII && ($0.isLetter || $0.isNumber) ? $0 : "_" })
        guard let first = name.first else { return "_" }
        return first.isNumber ? "_" + name : name
    }

    /// The labels between the braces, sorted by name. If several labels have the same name, only the first is written.
    /// The format reserves the name `le`, so a label with this name gets an underscore.
    static func labels(_ dimensions: [(String, String)]) -> String {
        var seen: Set<String> = []
        var labels: [(name: String, value: String)] = []
        for (key, value) in dimensions {
            var name = Self.name(key)
            if name == "le" { name = "le_" }
            if seen.insert(name).inserted { labels.append((name, value)) }
        }
        return labels.sorted { $0.name < $1.name }.map { "\($0.name)=\"\(Self.escaped($0.value))\"" }
            .joined(separator: ",")
    }

    /// The value of a label with escapes, cut off after 256 characters.
    static func escaped(_ value: String) -> String {
        var text = ""
        for scalar in value.prefix(256).unicodeScalars {
            switch scalar {
            case "\\": text += "\\\\"
            case "\"": text += "\\\""
            case "\n": text += "\\n"
            default: text.unicodeScalars.append(scalar)
            }
        }
        return text
    }

    static func help(_ text: String) -> String {
        var escaped = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\\": escaped += "\\\\"
            case "\n": escaped += "\\n"
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }

    static func number(_ value: Double) -> String {
        if value.isNaN { return "NaN" }
        if value.isInfinite { return value < 0 ? "-Inf" : "+Inf" }
        return value == value.rounded() && value.magnitude < 1e15 ? "\(Int64(value))" : "\(value)"
    }
}
