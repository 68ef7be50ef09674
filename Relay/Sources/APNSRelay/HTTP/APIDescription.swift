/// The OpenAPI 3.1 document of the API, served at `/openapi.json`. A test compares its paths and methods with the routes.
enum APIDescription {
    static let text = """
        {"openapi":"3.1.0",
         "info":{"title":"apns-relay","version":"1","license":{"name":"Apache 2.0","identifier":"Apache-2.0"},
           "description":"A durable relay for push notifications to APNs. Every push that it accepted ends in one outcome."},
         "servers":[{"url":"/"}],
         "tags":[{"name":"pushes"},{"name":"feeds"},{"name":"operators"},{"name":"probes"}],
         "paths":{\(Self.paths)},
         "components":{\(Self.components)}}
        """

    private static let paths = Dictionary(grouping: Self.operations, by: \.path)
        .sorted { $0.key < $1.key }
        .map { path, operations in "\n\"\(path)\":{\(operations.map(\.text).joined(separator: ",\n "))}" }
        .joined(separator: ",")

    /// One method of one path.
    private struct Operation {
        var method: String
        var path: String
        /// A unique name, which generated clients use.
        var id: String
        var tag: String
        var summary: String
        var parameters: [String] = []
        /// The member `requestBody` with its comma.
        var body = ""
        /// The status and content of the response to a successful request.
        var success: String
        /// The statuses of errors.
        var errors: [Int]
        var needsToken = true

        var text: String {
            let parameters = self.parameters.map { "{\"$ref\":\"#/components/parameters/\($0)\"}" }
            let errors = self.errors.map { ",\"\($0)\":{\"$ref\":\"#/components/responses/E\($0)\"}" }
            return """
                "\(self.method)":{"operationId":"\(self.id)","tags":["\(self.tag)"],"summary":"\(self.summary)",
                  "security":[\(self.needsToken ? "{\"token\":[]},{}" : "{}")],
                  "parameters":[\(parameters.joined(separator: ","))],\(self.body)
                  "responses":{\(self.success)\(errors.joined())}}
                """
        }
    }

    private static func json(_ schema: String, _ description: String, status: Int = 200) -> String {
        let content = "{\"application/json\":{\"schema\":{\"$ref\":\"#/components/schemas/\(schema)\"}}}"
        return "\"\(status)\":{\"description\":\"\(description)\",\"content\":\(content)}"
    }

    private static func plain(_ description: String, status: Int = 200) -> String {
        let content = "{\"text/plain\":{\"schema\":{\"type\":\"string\"}}}"
        return "\"\(status)\":{\"description\":\"\(description)\",\"content\":\(content)}"
    }

    /// The error statuses of every route that needs a token.
    private static let common = [400, 401, 403, 500, 503]
    private static let operations: [Operation] = Self.pushes + Self.feeds + Self.operators + Self.probes

    private static let pushes = [
        Operation(
            method: "post",
            path: "/v1/pushes",
            id: "enqueuePushes",
            tag: "pushes",
            summary: "Hands pushes in. With 202, they are stored durably.",
            parameters: ["partial"],
            body: Self.pushBody,
            success: Self.enqueued,
            errors: [400, 401, 403, 408, 409, 413, 415, 429, 500, 503]
        ),
        Operation(
            method: "get",
            path: "/v1/pushes/{id}",
            id: "getPush",
            tag: "pushes",
            summary: "What is known about a push.",
            parameters: ["id"],
            success: Self.json("PushStatus", "The push."),
            errors: Self.common + [404]
        ),
        Operation(
            method: "delete",
            path: "/v1/pushes/{id}",
            id: "cancelPush",
            tag: "pushes",
            summary: "Cancels a push that is not being sent. It ends as cancelled, not sent.",
            parameters: ["id"],
            success: Self.json("SettledPush", "The push is cancelled."),
            errors: Self.common + [404, 409]
        ),
    ]

    private static let feeds = [
        Operation(
            method: "get",
            path: "/v1/outcomes",
            id: "listOutcomes",
            tag: "feeds",
            summary: "Settled pushes in the order in which they were settled. Pass the cursor as after to read on.",
            parameters: ["after", "limit", "app", "skipMissing"],
            success: Self.json("Outcomes", "A page."),
            errors: Self.common + [410]
        ),
        Operation(
            method: "get",
            path: "/v1/dead-tokens",
            id: "listDeadTokens",
            tag: "feeds",
            summary:
                "Device tokens that APNs declared invalid. Delete those that were not registered again since then.",
            parameters: ["after", "limit", "app", "skipMissing"],
            success: Self.json("DeadTokens", "A page."),
            errors: Self.common + [410]
        ),
    ]

    private static let operators = [
        Operation(
            method: "get",
            path: "/v1/overview",
            id: "getOverview",
            tag: "operators",
            summary: "The queue, the routes, the totals since the start, the webhooks, and the relays.",
            success: Self.json("Overview", "The state of the relay."),
            errors: Self.common
        ),
        Operation(
            method: "get",
            path: "/v1/settings",
            id: "getSettings",
            tag: "operators",
            summary: "The settings of all relays that can change while they run.",
            success: Self.settings,
            errors: Self.common + [409]
        ),
        Operation(
            method: "put",
            path: "/v1/settings",
            id: "replaceSettings",
            tag: "operators",
            summary: "Replaces the settings. This relay applies them at once, the others within seconds.",
            parameters: ["ifMatch"],
            body: Self.settingsBody,
            success: Self.settings,
            errors: [400, 401, 403, 408, 412, 413, 415, 428, 500, 503]
        ),
        Operation(
            method: "post",
            path: "/v1/clock/confirm",
            id: "confirmClock",
            tag: "operators",
            summary:
                "Says that the clock of this relay is right after it has jumped ahead, so that pushes expire again.",
            success: Self.json("Clock", "The time of day."),
            errors: Self.common + [409]
        ),
        Operation(
            method: "get",
            path: "/v1/parked",
            id: "listParked",
            tag: "operators",
            summary: "Pushes that cannot be sent until somebody decides about them, the oldest first.",
            parameters: ["afterID", "limit"],
            success: Self.json("Parked", "A page."),
            errors: Self.common
        ),
        Operation(
            method: "post",
            path: "/v1/parked/retry",
            id: "retryAllParked",
            tag: "operators",
            summary: "Queues all parked pushes of an app, or those of them with a reason, again.",
            parameters: ["appOfParked", "reason"],
            success: Self.json("Decisions", "The pushes are queued."),
            errors: Self.common
        ),
        Operation(
            method: "delete",
            path: "/v1/parked",
            id: "dropAllParked",
            tag: "operators",
            summary:
                "Settles all parked pushes of an app, or those of them with a reason, with the outcome of the last attempt.",
            parameters: ["appOfParked", "reason"],
            success: Self.json("Decisions", "The pushes are settled."),
            errors: Self.common
        ),
        Operation(
            method: "post",
            path: "/v1/parked/{id}/retry",
            id: "retryParked",
            tag: "operators",
            summary: "Queues a parked push again.",
            parameters: ["id"],
            success: Self.json("Decision", "The push is queued."),
            errors: Self.common + [404]
        ),
        Operation(
            method: "delete",
            path: "/v1/parked/{id}",
            id: "dropParked",
            tag: "operators",
            summary: "Settles a parked push with the outcome of its last attempt.",
            parameters: ["id"],
            success: Self.json("Decision", "The push is settled."),
            errors: Self.common + [404]
        ),
        Operation(
            method: "post",
            path: "/v1/webhooks/{name}/parked/{id}/retry",
            id: "retryParkedWebhook",
            tag: "operators",
            summary: "Sends a request to a webhook that was given up again.",
            parameters: ["webhook", "requestID"],
            success: Self.json("WebhookDecision", "The request is sent again."),
            errors: Self.common + [404]
        ),
        Operation(
            method: "delete",
            path: "/v1/webhooks/{name}/parked/{id}",
            id: "dropParkedWebhook",
            tag: "operators",
            summary: "Forgets a request to a webhook that was given up.",
            parameters: ["webhook", "requestID"],
            success: Self.json("WebhookDecision", "The request is forgotten."),
            errors: Self.common + [404]
        ),
    ]

    private static let probes = [
        Operation(
            method: "get",
            path: "/live",
            id: "live",
            tag: "probes",
            summary: "Whether the process runs.",
            success: Self.plain("Always."),
            errors: [400, 403, 500],
            needsToken: false
        ),
        Operation(
            method: "get",
            path: "/ready",
            id: "ready",
            tag: "probes",
            summary: "Whether the relay accepts pushes.",
            success: Self.plain("It does.") + ","
                + Self.plain("It does not. The log and the overview have the reason.", status: 503),
            errors: [400, 403, 500],
            needsToken: false
        ),
        Operation(
            method: "get",
            path: "/metrics",
            id: "metrics",
            tag: "probes",
            summary: "Metrics in Prometheus' text format.",
            success: Self.plain("The metrics."),
            errors: [400, 403, 500],
            needsToken: false
        ),
        Operation(
            method: "get",
            path: "/openapi.json",
            id: "openapi",
            tag: "probes",
            summary: "This document.",
            success:
                #""200":{"description":"The document.","content":{"application/json":{"schema":{"type":"object"}}}}"#,
            errors: [400, 403, 500],
            needsToken: false
        ),
    ]
}
