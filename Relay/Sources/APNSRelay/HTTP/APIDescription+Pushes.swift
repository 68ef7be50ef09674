extension APIDescription {
    /// The body of a request that hands pushes in, with examples.
    static let pushBody = #"""
        "requestBody":{"required":true,
          "description":"One push as application/json, or one push a line as application/x-ndjson (at most 100,000).",
          "content":{
            "application/json":{"schema":{"$ref":"#/components/schemas/NewPush"},"examples":{
              "alert":{"summary":"The required members","value":{"app":"fern",
                "token":"0000000000000000000000000000000000000000000000000000000000000000",
                "headers":{"apns-push-type":"alert"},
                "payload":{"aps":{"alert":{"title":"Fern","body":"Hello"}}}}},
              "all":{"summary":"All members","value":{"app":"fern","environment":"production",
                "token":"0000000000000000000000000000000000000000000000000000000000000000",
                "headers":{"apns-push-type":"alert","apns-topic":"com.example.fern","apns-priority":10,
                  "apns-expiration":1795443600,"apns-collapse-id":"score"},
                "payload":{"aps":{"alert":"2:1"}},"idempotencyKey":"match-42-goal-3","deadline":1795443600,
                "lane":"interactive","supersedes":"match-42","resendUnknown":false}}}},
            "application/x-ndjson":{"schema":{"description":"A NewPush on each line. Blank lines are skipped."},"example":
              "{\"app\":\"fern\",\"token\":\"00ff\",\"headers\":{\"apns-push-type\":\"alert\"},\"payload\":{\"aps\":{}}}\n"}}},
        """#

    /// The response to pushes that are stored, with an example.
    static let enqueued = #"""
        "202":{"description":"The pushes are stored. With partial, errors lists those that are not.",
          "content":{"application/json":{"schema":{"$ref":"#/components/schemas/Enqueued"},
            "example":{"queued":1,"duplicates":1,
              "pushes":[{"line":1,"id":"019a5b1c-7a40-7000-8000-000000000001"},
                {"line":2,"id":"019a5b1c-7a40-7000-8000-000000000000","duplicate":true}],
              "errors":[{"line":4,"code":"invalidPush","field":"token",
                "message":"device token: the device token is empty"}]}}},
          "links":{"status":{"operationId":"getPush","parameters":{"id":"$response.body#/pushes/0/id"}}}}
        """#
}
