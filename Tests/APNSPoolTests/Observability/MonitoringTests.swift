import Foundation
import Testing

@testable import APNSModel
@testable import APNSPool
@testable import APNSPoolTestSupport

/// Alerts, dashboard and runbook refer only to existing items. `ci/steps/alerts` tests the rules themselves.
struct MonitoringTests {
    /// The names of the metrics in a text, without the suffixes of histograms.
    private func metrics(in text: String) -> Set<String> {
        Set(
            text.matches(of: /apns_[a-z_]+/).map {
                String($0.0).replacing(/_(bucket|sum|count)$/, with: "")
            }
        )
    }

    /// The metrics in the table of Docs/Operations.md, which `MetricsTests` compares with the library.
    private func documentedMetrics() throws -> Set<String> {
        let names = try Runbook.text("Docs/Operations.md").matches(of: /\| `(apns_[a-z_]+)` \|/).map { String($0.1) }
        #expect(names.count > 15)
        return Set(names)
    }

    @Test func alertsUseExistingMetrics() throws {
        let asked = self.metrics(in: try Runbook.text("Docs/Monitoring/alerts.yml"))
        #expect(asked.count > 8)
        #expect(try asked.isSubset(of: self.documentedMetrics()), "\(asked)")
    }

    @Test func theDashboardShowsExactlyAllMetrics() throws {
        let text = try Runbook.text("Docs/Monitoring/dashboard.json")
        #expect(try self.metrics(in: text) == self.documentedMetrics())
    }

    private struct Dashboard: Decodable {
        struct Panel: Decodable {
            struct Target: Decodable { var expr: String }
            struct Position: Decodable { var h, w, x, y: Int }
            var id: Int
            var type: String
            var title: String
            var gridPos: Position
            var targets: [Target]?
        }
        var uid: String
        var title: String
        var schemaVersion: Int
        var panels: [Panel]
    }

    @Test func theDashboardIsValid() throws {
        let text = try Runbook.text("Docs/Monitoring/dashboard.json")
        let dashboard = try JSONDecoder().decode(Dashboard.self, from: Data(text.utf8))
        #expect(Set(dashboard.panels.map(\.id)).count == dashboard.panels.count)
        #expect(dashboard.panels.count > 20 && dashboard.schemaVersion >= 36)
        for panel in dashboard.panels {
            #expect(panel.gridPos.x + panel.gridPos.w <= 24 && panel.gridPos.h > 0, "\(panel.title)")
            #expect(["row", "timeseries", "stat"].contains(panel.type) && !panel.title.isEmpty)
            #expect((panel.type == "row") == (panel.targets ?? []).isEmpty, "\(panel.title)")
        }
        // No two panels overlap.
        var cells: Set<[Int]> = []
        for position in dashboard.panels.map(\.gridPos) {
            for x in position.x..<position.x + position.w {
                for y in position.y..<position.y + position.h { #expect(cells.insert([x, y]).inserted) }
            }
        }
    }

    /// The reasons in the rules' expressions are reasons of APNs or codes of this library.
    @Test func alertsUseExistingReasons() throws {
        let text = try Runbook.text("Docs/Monitoring/alerts.yml")
        var known = Set(RejectionReason.table.map(\.reason.rawValue) + RejectionReason.table.compactMap(\.alias))
        known.formUnion(try self.codes("Sources/APNSModel/Outcome/PushError.swift"))
        known.insert("none")
        // The expression matches two spellings.
        let expressions = text.replacing("Key(Id)?In", with: "KeyIn")
        let asked = Set(
            expressions.matches(of: /reason!?=~?"([^"]*)"/).flatMap { $0.1.split(separator: "|").map(String.init) }
        )
        #expect(asked.count > 15)
        #expect(asked.isSubset(of: known), "\(asked.subtracting(known))")
        // The alerts include every reason that refuses the credential.
        let refusals = RejectionReason.table.filter { $0.disposition == .credential }.map(\.reason.rawValue)
        #expect(Set(refusals).isSubset(of: asked), "\(Set(refusals).subtracting(asked))")
    }

    // MARK: The runbook

    /// The texts of all codes that a file declares.
    private func codes(_ file: String) throws -> Set<String> {
        let code = #/static let \w+ =\s+(?:APNSConfigurationError\.)?Code\(rawValue: "([^"]+)"\)/#
        return Set(try Runbook.text(file).matches(of: code).map { String($0.1) })
    }

    @Test func eachAlertHasAHeadingAndALinkToIt() throws {
        let headings = Set(try Runbook.headings())
        let rules = try Runbook.text("Docs/Monitoring/alerts.yml")
        let alerts = try Runbook.alerts()
        #expect(alerts.count > 15 && Set(alerts).count == alerts.count)
        for alert in alerts {
            #expect(headings.contains(alert), "\(alert)")
            #expect(rules.contains("runbook: Docs/Runbook.md#\(alert.lowercased())\n"), "\(alert)")
        }
        #expect(rules.matches(of: /severity: (page|ticket)\}/).count == alerts.count)
        #expect(rules.matches(of: /summary:/).count == alerts.count)
    }

    @Test(arguments: [
        ("Sources/APNSModel/Outcome/PushError.swift", 18),
        ("Sources/APNSPool/Client/APNSConfigurationError.swift", 9),
        ("Sources/APNSPool/Client/APNSClientConfiguration.swift", 2),
        ("Sources/APNSPool/Credentials/CertificateInput.swift", 6),
        ("Sources/APNSTransport/Connection/WireError.swift", 28),
    ]) func eachCodeHasARow(_ file: String, _ least: Int) throws {
        let text = try Runbook.text("Docs/Runbook.md")
        let rows = Set(text.matches(of: /\n\| `([A-Za-z0-9-]+)` \|/).map { String($0.1) })
        let codes = try self.codes(file)
        #expect(codes.count >= least, "\(codes.count) codes were found in \(file)")
        for code in codes {
            #expect(rows.contains(code), "Docs/Runbook.md has no row for '\(code)' of \(file)")
        }
    }

    @Test func theRunbookHasEachReasonAndCause() throws {
        let text = try Runbook.text("Docs/Runbook.md")
        for entry in RejectionReason.table {
            #expect(text.contains("`\(entry.reason.rawValue)` (\(entry.status))"), "\(entry.reason)")
        }
        let causes = try self.codes("Sources/APNSPool/Observability/APNSHealth.swift")
        #expect(causes.count >= 7)
        for cause in causes { #expect(text.contains("- `\(cause)`"), "\(cause)") }
    }

    /// Every link within the runbook, and every link from alerts and other pages to it, leads to a heading.
    @Test func linksToTheRunbookHaveTargets() throws {
        let anchors = Set(
            try Runbook.headings().map { heading in
                heading.lowercased().replacing("'", with: "").replacing(" ", with: "-")
            }
        )
        let pages = ["Docs/Runbook.md", "Docs/Monitoring/alerts.yml", "Docs/Operations.md"]
        var links = 0
        for page in pages {
            let text = try Runbook.text(page)
            let own = page == "Docs/Runbook.md" ? text.matches(of: /\]\(#([^)]+)\)/).map { String($0.1) } : []
            for anchor in own + text.matches(of: /Runbook\.md#([a-z-]+)/).map({ String($0.1) }) {
                #expect(anchors.contains(anchor), "\(page): #\(anchor)")
                links += 1
            }
        }
        #expect(links > 40)
    }
}
