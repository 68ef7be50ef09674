import Hummingbird
import NIOCore
import ServiceLifecycle

/// The endpoints that need no token: the page, the probes, the metrics and the API's description.
struct PageRoutes: Sendable {
    let pages: [PageFile]
    let status: any RelayStatus
    let metrics: @Sendable () async -> String

    var routes: [APIRoute] {
        let files = (self.pages + [PageFiles.openAPI]).map { file in
            let body = ByteBuffer(string: file.body)
            return APIRoute(.get, file.path, .open) { _ in .body(body, file.contentType) }
        }
        return files + [
            APIRoute(.get, "/live", .open) { _ in .text("live") },
            APIRoute(.get, "/ready", .open) { _ in await self.ready() },
            APIRoute(.get, "/metrics", .open) { _ in
                .text(await self.metrics(), "text/plain; version=0.0.4; charset=utf-8")
            },
        ]
    }

    private func ready() async -> Response {
        if Task.isShuttingDownGracefully { return .text("shutting down", status: .serviceUnavailable) }
        guard await self.status.notReady() != nil else { return .text("ready") }
        // The response leaves out the reason, which may name files, because everybody may send this request.
        return .text("not ready; the relay's log and /v1/overview say why", status: .serviceUnavailable)
    }
}
