import APNSModel
import Foundation
import HTTPTypes
import PushQueue
import RelayTestSupport
import Testing
import WebPushGateway

@testable import APNSRelay

struct APIDescriptionTests {
    /// - Parameter parts: by default those of a relay with all parts.
    private static func document(_ parts: [String] = [Gateway.openAPI]) throws -> [String: Any] {
        let body = PageFiles.openAPI(with: parts).body
        return try #require(try JSONSerialization.jsonObject(with: Data(body.utf8)) as? [String: Any])
    }

    /// All endpoints, also those that depend on settings.
    private static func routes() async throws -> [APIRoute] {
        let settings = RelayServer.settings { settings in
            settings.webPush = WebPushSettings(
                origins: ["https://push.example.com"],
                key: Array(repeating: 7, count: 32)
            )
        }
        return try await RelayServer.run(settings) { $0.api.routes }
    }

    @Test("The document has the paths and methods of the API")
    func paths() async throws {
        let routes = try await Self.routes()
        let paths = try #require(try Self.document()["paths"] as? [String: [String: Any]])
        let documented = paths.flatMap { path, methods in methods.keys.map { "\($0.uppercased()) \(path)" } }
        #expect(documented.sorted() == routes.map { "\($0.method.rawValue) \($0.path)" }.sorted())
    }

    @Test("The document names the roles that each endpoint needs")
    func roles() async throws {
        let routes = try await Self.routes()
        let paths = try #require(try Self.document()["paths"] as? [String: [String: [String: Any]]])
        for route in routes {
            let operation = paths[route.path]?[route.method.rawValue.lowercased()]
            let documented = try #require(operation?["security"] as? [[String: [String]]])
            // Without callers, a request needs no token.
            var expected: [[String: [String]]] = [[:]]
            if case .oneOf(let roles) = route.access { expected = roles.map { ["token": [$0.rawValue]] } + expected }
            #expect(documented == expected, "\(route.method.rawValue) \(route.path)")
        }
    }

    @Test("The document of a relay without a gateway has nothing of the gateway")
    func documentWithoutGateway() async throws {
        let routes = try await RelayServer.run(RelayServer.settings()) { $0.api.routes }
        let document = try Self.document([])
        let paths = try #require(document["paths"] as? [String: Any])
        #expect(Set(paths.keys) == Set(routes.map(\.path)))
        let text = PageFiles.openAPI(with: []).body.lowercased()
        for word in ["webpush", "web push", "subscription", "attest", "vapid"] { #expect(!text.contains(word)) }
    }

    @Test("Every reference of the document leads somewhere, and every component is used", arguments: [true, false])
    func references(hasGateway: Bool) throws {
        let document = try Self.document(hasGateway ? [Gateway.openAPI] : [])
        var found: Set<String> = []
        func collect(_ value: Any) {
            if let members = value as? [String: Any] {
                if let reference = members["$ref"] as? String { found.insert(reference) }
                members.values.forEach(collect)
            } else if let elements = value as? [Any] {
                elements.forEach(collect)
            }
        }
        collect(document)
        let components = try #require(document["components"] as? [String: [String: Any]])
        var defined: Set<String> = []
        for (kind, members) in components where kind != "securitySchemes" {
            for name in members.keys { defined.insert("#/components/\(kind)/\(name)") }
        }
        #expect(found == defined)
    }

    @Test("The document describes each error that the API has a status for")
    func errors() throws {
        let components = try #require(try Self.document()["components"] as? [String: [String: Any]])
        let responses = Set(try #require(components["responses"]).keys)
        #expect(responses.count == 15)
        let schemas = try #require(components["schemas"])
        let codes = (schemas["ErrorCode"] as? [String: Any])?["examples"] as? [String]
        #expect(codes == APIError.Code.allCases.map(\.rawValue))
    }

    @Test("The document lists the values of each enumeration, and the settings with their range")
    func values() throws {
        let components = try #require(try Self.document()["components"] as? [String: [String: Any]])
        let schemas = try #require(components["schemas"] as? [String: [String: Any]])
        func properties(_ schema: String) throws -> [String: [String: Any]] {
            try #require(schemas[schema]?["properties"] as? [String: [String: Any]])
        }
        let outcomes = try properties("Outcome")["outcome"]?["enum"] as? [String]
        #expect(outcomes.map(Set.init) == Set(Certainty.allCases.map(\.rawValue)))
        let states = try properties("PushStatus")["state"]?["enum"] as? [String]
        #expect(states == PushStatus.State.allCases.map(\.rawValue))

        let settings = try properties("Settings")
        let all = FleetSettings(maxConnections: 1, maxInFlight: 1, pausedApps: ["fern"])
        let stored = try #require(try JSONSerialization.jsonObject(with: Data(all.json)) as? [String: Any])
        #expect(Set(settings.keys) == Set(stored.keys))
        for name in ["maxConnections", "maxInFlight"] {
            #expect(settings[name]?["minimum"] as? Int == FleetSettings.range.lowerBound)
            #expect(settings[name]?["maximum"] as? Int == FleetSettings.range.upperBound)
        }
    }
}
