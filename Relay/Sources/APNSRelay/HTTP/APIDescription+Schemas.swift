extension APIDescription {
    static let schemas = [Self.inputs, Self.outputs, Self.overview, Self.settingsSchema].joined(separator: ",\n")

    private static let inputs = #"""
        "ID":{"type":"string","format":"uuid",
          "pattern":"^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$"},
        "Time":{"type":"number","description":"Seconds since 1970, with up to three decimals."},
        "OptionalTime":{"type":["number","null"],"description":"Seconds since 1970, with up to three decimals."},
        "Lane":{"enum":["interactive","bulk"],
          "description":"interactive pushes are sent before bulk ones. Default: interactive for application/json, bulk for lines."},
        "NewPush":{"type":"object","additionalProperties":false,"required":["app","token","headers","payload"],
          "properties":{
            "app":{"type":"string","description":"The app's name in the relay's settings."},
            "environment":{"type":"string",
              "description":"production or development; default: the app's only one, or production."},
            "token":{"type":"string","pattern":"^([0-9A-Fa-f]{2}){1,500}$","description":"The device token."},
            "headers":{"$ref":"#/components/schemas/Headers"},
            "payload":{"type":"object","description":"Sent to APNs byte for byte. At most 4,096 bytes; voip: 5,120."},
            "idempotencyKey":{"type":"string","minLength":1,"maxLength":128,"pattern":"^[^\\x00-\\x1f\\x7f]+$",
              "description":"Recognises a push that is handed in again; per caller. 1 to 128 bytes of UTF-8. Default: apns-id."},
            "notBefore":{"type":"number","minimum":0,
              "description":"The push is not sent before this time, in seconds since 1970."},
            "deadline":{"type":"number","minimum":0,
              "description":"No attempt begins after this time, in seconds since 1970. Default: a day from now."},
            "lane":{"$ref":"#/components/schemas/Lane"},
            "supersedes":{"type":"string","minLength":1,"maxLength":128,"pattern":"^[^\\x00-\\x1f\\x7f]+$",
              "description":"A newer push with this key to this device replaces older ones that are not sent yet."},
            "resendUnknown":{"type":"boolean","default":false,
              "description":"Whether to send the push again if it may already have been processed. The device may then show it twice."}}},
        "Headers":{"type":"object","additionalProperties":false,"required":["apns-push-type"],
          "description":"The headers that are sent to APNs. Integers may also be written as strings.",
          "properties":{
            "apns-push-type":{"type":["string","integer"],"pattern":"^[!-~]{1,64}$"},
            "apns-topic":{"type":["string","integer"],"pattern":"^[!-~]{1,1000}$",
              "description":"The app's topic, or one that begins with it and a dot. Default: the topic with the suffix of the type."},
            "apns-priority":{"enum":[10,5,1,"10","5","1"]},
            "apns-expiration":{"type":["integer","string"],"minimum":0,"maximum":99999999999,"pattern":"^[0-9]{1,11}$"},
            "apns-collapse-id":{"type":["string","integer"],"pattern":"^[!-~]([ -~]{0,62}[!-~])?$"},
            "apns-id":{"$ref":"#/components/schemas/ID"}}}
        """#

    private static let outputs = #"""
        "Error":{"type":"object","additionalProperties":false,"required":["error"],"properties":{
          "error":{"type":"object","additionalProperties":false,"required":["code","message"],"properties":{
            "code":{"$ref":"#/components/schemas/ErrorCode"},"message":{"type":"string"},
            "line":{"type":"integer","minimum":1},"field":{"type":"string"},
            "missing":{"type":"object","required":["first","last","cursor"],
              "description":"The positions of the outcomes that are missing, and the cursor to continue with.",
              "properties":{"first":{"type":"integer"},"last":{"type":"integer"},"cursor":{"type":"string"}}}}}},
          "examples":[{"error":{"code":"invalidPush","message":"expected a JSON object","line":3,"field":"payload"}}]},
        "ErrorCode":{"type":"string","description":"Later versions may add codes.","examples":["\#(Self.codes)"]},
        "Enqueued":{"type":"object","required":["queued","duplicates","pushes","errors"],"properties":{
          "queued":{"type":"integer","minimum":0},"duplicates":{"type":"integer","minimum":0},
          "pushes":{"type":"array","items":{"type":"object","required":["line","id"],"properties":{
            "line":{"type":"integer","minimum":1},"id":{"$ref":"#/components/schemas/ID"},
            "duplicate":{"const":true}}}},
          "errors":{"type":"array","items":{"type":"object","required":["line","code","message"],"properties":{
            "line":{"type":"integer","minimum":1},"code":{"$ref":"#/components/schemas/ErrorCode"},
            "field":{"type":"string"},"message":{"type":"string"}}}}}},
        "Outcome":{"type":"object",
          "required":["outcome","status","reason","code","message","apnsUniqueID","attempts","tokenInvalidSince","advice",
            "retryAfterSeconds"],
          "properties":{
            "outcome":{"enum":["accepted","rejected","not-processed","not-sent","unknown"],
              "description":"What is certain about the push. unknown: it may have been delivered."},
            "status":{"type":["integer","null"],"description":"The status of APNs' response."},
            "reason":{"type":["string","null"],"description":"The reason in APNs' response."},
            "code":{"type":["string","null"],"description":"What happened; null if accepted."},
            "message":{"type":["string","null"]},
            "apnsUniqueID":{"type":["string","null"],"description":"APNs' own id, in the development environment only."},
            "attempts":{"type":"integer","minimum":0},
            "tokenInvalidSince":{"$ref":"#/components/schemas/OptionalTime"},
            "advice":{"type":"string","examples":["none","resend","wait","fix-request","check-environment",
              "remove-token","fix-credential"]},
            "retryAfterSeconds":{"type":["number","null"]}}},
        "OptionalOutcome":{"anyOf":[{"$ref":"#/components/schemas/Outcome"},{"type":"null"}]},
        "PushStatus":{"type":"object",
          "required":["id","app","environment","lane","token","caller","state","queuedAt","notBefore","deadline",
            "attempts","outcome","settledAt"],
          "properties":{
            "id":{"$ref":"#/components/schemas/ID"},"app":{"type":"string"},"environment":{"type":"string"},
            "lane":{"$ref":"#/components/schemas/Lane"},"token":{"type":"string"},"caller":{"type":"string"},
            "state":{"enum":["queued","claimed","written","parked","settled"]},
            "queuedAt":{"$ref":"#/components/schemas/Time"},"notBefore":{"$ref":"#/components/schemas/Time"},
            "deadline":{"$ref":"#/components/schemas/Time"},"attempts":{"type":"integer","minimum":0},
            "outcome":{"$ref":"#/components/schemas/OptionalOutcome"},
            "settledAt":{"$ref":"#/components/schemas/OptionalTime"},
            "cursor":{"type":"string","description":"The position in a feed; only there."}}},
        "SettledPush":{"type":"object","required":["id","state"],"properties":{
          "id":{"$ref":"#/components/schemas/ID"},"state":{"const":"settled"},
          "outcome":{"$ref":"#/components/schemas/Outcome"}}},
        "Outcomes":{"type":"object","required":["outcomes","cursor"],"properties":{
          "outcomes":{"type":"array","items":{"$ref":"#/components/schemas/PushStatus"}},
          "cursor":{"$ref":"#/components/schemas/Cursor"}}},
        "Cursor":{"type":["string","null"],
          "description":"Where the page ends. A page may be empty although more follows: read on until it stays the same."},
        "DeadTokens":{"type":"object","required":["tokens","cursor"],"properties":{
          "tokens":{"type":"array","items":{"type":"object",
            "required":["cursor","app","environment","token","since","pushID","settledAt"],"properties":{
              "cursor":{"type":"string"},"app":{"type":"string"},"environment":{"type":"string"},
              "token":{"type":"string"},"since":{"$ref":"#/components/schemas/OptionalTime"},
              "pushID":{"$ref":"#/components/schemas/ID"},"settledAt":{"$ref":"#/components/schemas/OptionalTime"}}}},
          "cursor":{"$ref":"#/components/schemas/Cursor"}}},
        "Parked":{"type":"object","required":["pushes","next"],"properties":{
          "pushes":{"type":"array","items":{"$ref":"#/components/schemas/PushStatus"}},
          "next":{"type":["string","null"],"description":"Pass it as after to read on; null at the end."}}},
        "Decision":{"type":"object","required":["id","state"],"properties":{
          "id":{"$ref":"#/components/schemas/ID"},"state":{"enum":["queued","settled"]}}},
        "Decisions":{"type":"object","required":["pushes","state"],"properties":{
          "pushes":{"$ref":"#/components/schemas/Count"},"state":{"enum":["queued","settled"]}}},
        "Clock":{"type":"object","required":["now"],"properties":{"now":{"$ref":"#/components/schemas/Time"}}},
        "WebhookDecision":{"type":"object","required":["id"],"properties":{"id":{"type":"string"}}}
        """#

    private static let codes = APIError.Code.allCases.map(\.rawValue).joined(separator: "\",\"")

    private static let overview = #"""
        "Count":{"type":"integer","minimum":0},
        "Overview":{"type":"object",
          "required":["now","version","ready","reason","clockAhead","queue","routes","totals","webhooks","relays"],
          "properties":{
            "now":{"$ref":"#/components/schemas/Time"},"version":{"type":"string"},"ready":{"type":"boolean"},
            "reason":{"type":["string","null"],"description":"Why the relay is not ready."},
            "clockAhead":{"type":["number","null"],
              "description":"How many seconds the clock is ahead of what is plausible. Until it is confirmed, nothing expires."},
            "queue":{"type":"object","required":["queued","claimed","written","parked","capacity","oldestDue"],
              "properties":{\#(Self.counts),
                "capacity":{"type":["integer","null"]},"oldestDue":{"$ref":"#/components/schemas/OptionalTime"}}},
            "routes":{"type":"array","items":{"type":"object",
              "required":["app","environment","lane","queued","claimed","written","parked","oldestDue","state","reason",
                "pausedUntil"],
              "properties":{"app":{"type":"string"},"environment":{"type":"string"},
                "lane":{"$ref":"#/components/schemas/Lane"},\#(Self.counts),
                "oldestDue":{"$ref":"#/components/schemas/OptionalTime"},"state":{"enum":["sending","idle","paused"]},
                "reason":{"type":["string","null"]},"pausedUntil":{"$ref":"#/components/schemas/OptionalTime"}}}},
            "totals":{"type":"object","description":"Counters since the start of the process.",
              "required":["queued","duplicates","accepted","rejected","notProcessed","notSent","unknown","retried",
                "parked","late"],
              "additionalProperties":{"$ref":"#/components/schemas/Count"}},
            "webhooks":{"type":"array","items":{"type":"object",
              "required":["name","url","position","failures","lastError","nextAttempt","parked"],
              "properties":{"name":{"type":"string"},"url":{"type":"string"},"position":{"type":"integer"},
                "failures":{"$ref":"#/components/schemas/Count"},"lastError":{"type":["string","null"]},
                "nextAttempt":{"$ref":"#/components/schemas/OptionalTime"},
                "parked":{"type":"array","items":{"type":"object","required":["id","outcomes","since","error"],
                  "properties":{"id":{"type":"string"},"outcomes":{"$ref":"#/components/schemas/Count"},
                    "since":{"$ref":"#/components/schemas/Time"},"error":{"type":"string"}}}}}}},
            "relays":{"type":"array","description":"The relays that share the queue, the one that responds first.",
              "items":{"type":"object","required":["id","host","process","version","since","isSelf","duties"],
              "properties":{"id":{"type":"string"},"host":{"type":"string"},
                "process":{"type":"integer","description":"The id of its process."},"version":{"type":"string"},
                "since":{"$ref":"#/components/schemas/Time"},"isSelf":{"type":"boolean"},
                "duties":{"type":"array","items":{"type":"string"},
                  "description":"What this relay does for all, such as webhooks. Later versions may add some."}}}}}}
        """#

    private static let counts = ["queued", "claimed", "written", "parked"]
        .map { "\"\($0)\":{\"$ref\":\"#/components/schemas/Count\"}" }
        .joined(separator: ",")
}
