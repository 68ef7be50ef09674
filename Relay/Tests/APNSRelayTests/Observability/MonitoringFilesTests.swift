import Foundation
import Testing

@testable import APNSRelay

/// Compares the files of Relay/Monitoring with the metrics.
struct MonitoringFilesTests {
    private static func names(in text: String) -> Set<String> {
        let known = Set(RelayMetrics.table.map(\.name) + [PrometheusMetrics.discarded.name])
        return Set(
            text.matches(of: /\bapns_relay_[a-z_]+/).map { match in
                let name = String(match.output)
                if known.contains(name) { return name }
                for suffix in ["_bucket", "_sum", "_count"] where name.hasSuffix(suffix) {
                    let base = String(name.dropLast(suffix.count))
                    if RelayMetrics.table.contains(where: { $0.name == base && $0.kind == .histogram }) { return base }
                }
                return name
            }
        )
    }

    private static let known = Set(RelayMetrics.table.map(\.name) + [PrometheusMetrics.discarded.name])

    @Test(
        "Every metric in the alerts, their tests and the dashboard exists",
        arguments: [
            "Relay/Monitoring/alerts.yml", "Relay/Monitoring/alerts-test.yml", "Relay/Monitoring/dashboard.json",
            "Relay/Monitoring/README.md",
        ]
    )
    func metricsExist(file: String) throws {
        let names = Self.names(in: try Repository.text(file))
        #expect(!names.isEmpty)
        #expect(names.subtracting(Self.known) == [])
    }

    @Test("The dashboard shows every metric")
    func dashboardIsComplete() throws {
        #expect(Self.known.subtracting(Self.names(in: try Repository.text("Relay/Monitoring/dashboard.json"))) == [])
    }

    @Test("Every alert has a heading that says what to do")
    func runbook() throws {
        let alerts = try Repository.text("Relay/Monitoring/alerts.yml").matches(of: /- alert: (\w+)/).map {
            String($0.1)
        }
        let headings = try Repository.text("Relay/Monitoring/README.md").matches(of: /### (\w+)/).map { String($0.1) }
        #expect(alerts.count > 10)
        #expect(alerts == headings || Set(alerts) == Set(headings))
    }

    @Test("The help texts are those of the library's metrics")
    func libraryMetrics() throws {
        let rows = try Repository.text("Docs/Operations.md").matches(of: /\| `(apns_\w+)` \| (counter|gauge|timer) \|/)
        let documented = Dictionary(
            uniqueKeysWithValues: rows.map { (String($0.1), $0.2 == "timer" ? "histogram" : String($0.2)) }
        )
        let table = Dictionary(uniqueKeysWithValues: LibraryMetrics.table.map { ($0.name, $0.kind.rawValue) })
        #expect(documented == table)
    }

    @Test("The README's table has the metrics' labels")
    func readme() throws {
        let rows = try Repository.text("Relay/Monitoring/README.md")
            .matches(of: /\| `(apns_relay_\w+)` \|(.*)\|/).map { (String($0.1), String($0.2)) }
        #expect(rows.count > 5)
        for (name, cell) in rows {
            let metric = try #require(RelayMetrics.table.first { $0.name == name }, "\(name)")
            // A label's values follow its colon.
            let labels = cell.replacing(/`(\w+)`: .*/) { "`\($0.1)`" }.matches(of: /`(\w+)`/).map { String($0.1) }
            #expect(labels == metric.labels, "\(name)")
        }
    }
}
