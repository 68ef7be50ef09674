import Hummingbird
import NIOCore
import ServiceLifecycle

/// The endpoints that need no token: the page and the API's description, and the probes with the metrics.
struct PageRoutes: Sendable {
    /// The files of the page, and the OpenAPI document.
    let files: [PageFile]
    let status: any RelayStatus
    let metrics: @Sendable () async -> String

    var routes: [APIRoute] {
        self.files.map { file in
            let body = ByteBuffer(string: file.body)
            return APIRoute(.get, file.path, .open) { _ in .body(body, file.contentType) }
        }
    }

    /// What a listener of their own may have.
    var probes: [APIRoute] {
        [
            APIRoute(.get, "/live", .open) { _ in .text("live") },
            APIRoute(.get, "/ready", .open) { _ in await self.ready() },
            APIRoute(.get, "/metrics", .open) { _ in
                .text(await self.metrics(), "text/plain; version=0.0.4; charset=utf-8")
            },
        ]
    }

    private func ready() async -> Response {
        if Task.isShuttingDownGracefully { return .text("shutting down", status: .serviceUnavailable) }
        guard await self.status.notReady() != nil else { return .text(Self.text(self.status.problems())) }
        // The response leaves out the reason, which may name files, because everybody may send this request.
        return .text("not ready; the relay's log and /v1/overview say why", status: .serviceUnavailable)
    }

    /// Says whether pushes and outcomes are delivered, without names, because everybody may send this request.
    private static func text(_ problems: [DeliveryProblem]) -> String {
        let causes = Set(problems.map(\.cause)).subtracting([.disk])
        let delivery = causes.subtracting([.webhook]).map(\.rawValue).sorted()
        var parts = ["ready"]
        if !delivery.isEmpty { parts.append("pushes are not being delivered (\(delivery.joined(separator: ", ")))") }
        if causes.contains(.webhook) { parts.append("outcomes do not reach a webhook") }
        return parts.joined(separator: "; ") + (causes.isEmpty ? "" : ", /v1/overview says why")
    }
}
