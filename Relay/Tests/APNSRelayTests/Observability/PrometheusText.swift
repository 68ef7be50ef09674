/// A strict reader of Prometheus' text format (version 0.0.4), for tests.
struct PrometheusText {
    struct Sample: Hashable {
        var name: String
        var labels: [String: String]
        var value: Double
    }

    struct Fault: Error, CustomStringConvertible {
        var description: String
    }

    /// Kinds by the metrics' names.
    private(set) var kinds: [String: String] = [:]
    private(set) var help: [String: String] = [:]
    private(set) var samples: [Sample] = []

    /// - Throws: `Fault` if the text breaks a rule of the format.
    init(_ text: String) throws {
        guard text.hasSuffix("\n"), !text.contains("\n\n") else { throw Fault(description: "line breaks") }
        var family = ""
        var seen: Set<String> = []
        for line in text.dropLast().split(separator: "\n", omittingEmptySubsequences: false) {
            if let match = line.wholeMatch(of: /# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)/) {
                guard self.help.updateValue(String(match.2), forKey: String(match.1)) == nil else {
                    throw Fault(description: "two HELP lines: \(line)")
                }
            } else if let match = line.wholeMatch(of: /# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge|histogram)/) {
                family = String(match.1)
                guard self.kinds.updateValue(String(match.2), forKey: family) == nil, self.help[family] != nil else {
                    throw Fault(description: "two TYPE lines, or none of HELP: \(line)")
                }
            } else {
                let sample = try Self.sample(line)
                let names =
                    self.kinds[family] == "histogram" ? ["_bucket", "_sum", "_count"].map { family + $0 } : [family]
                guard names.contains(sample.name) else { throw Fault(description: "not in its family: \(line)") }
                let key = "\(sample.name) \(sample.labels.sorted { $0.key < $1.key })"
                guard seen.insert(key).inserted else { throw Fault(description: "twice: \(line)") }
                if self.kinds[family] == "counter", !(sample.value >= 0) {
                    throw Fault(description: "negative: \(line)")
                }
                self.samples.append(sample)
            }
        }
        try self.checkHistograms()
    }

    /// The value of a sample; nil if there is none.
    func value(_ name: String, _ labels: [String: String] = [:]) -> Double? {
        self.samples.first { $0.name == name && $0.labels == labels }?.value
    }

    private static func sample(_ line: Substring) throws -> Sample {
        guard let match = line.wholeMatch(of: /(?s)([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)/) else {
            throw Fault(description: "not a sample: \(line)")
        }
        var labels: [String: String] = [:]
        var rest = match.2 ?? ""
        while !rest.isEmpty {
            guard let label = rest.prefixMatch(of: /(?s)([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\["\\n])*)"(,(?!$)|$)/)
            else {
                throw Fault(description: "labels: \(line)")
            }
            let value = String(label.2).replacing(/\\(.)/) { $0.1 == "n" ? "\n" : String($0.1) }
            guard labels.updateValue(value, forKey: String(label.1)) == nil else {
                throw Fault(description: "a label twice: \(line)")
            }
            rest = rest[label.range.upperBound...]
        }
        let value: Double? =
            switch match.3 {
            case "+Inf": .infinity
            case "-Inf": -.infinity
            case "NaN": .nan
            default: Double(match.3)
            }
        guard let value else { throw Fault(description: "not a number: \(line)") }
        return Sample(name: String(match.1), labels: labels, value: value)
    }

    private func checkHistograms() throws {
        for name in self.kinds.filter({ $0.value == "histogram" }).keys {
            var buckets: [[String: String]: [(limit: Double, count: Double)]] = [:]
            for sample in self.samples where sample.name == name + "_bucket" {
                var labels = sample.labels
                guard let text = labels.removeValue(forKey: "le"), let limit = text == "+Inf" ? .infinity : Double(text)
                else { throw Fault(description: "a bucket of \(name) has no limit") }
                buckets[labels, default: []].append((limit, sample.value))
            }
            for (labels, buckets) in buckets {
                let isAscending = zip(buckets, buckets.dropFirst()).allSatisfy {
                    $0.limit < $1.limit && $0.count <= $1.count
                }
                guard isAscending, buckets.last?.limit == .infinity,
                    buckets.last?.count == self.value(name + "_count", labels), self.value(name + "_sum", labels) != nil
                else { throw Fault(description: "the buckets of \(name) \(labels)") }
            }
        }
    }
}
