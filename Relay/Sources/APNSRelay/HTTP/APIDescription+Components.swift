extension APIDescription {
    static let components =
        Self.securitySchemes + ",\n" + Self.parameters + ",\n\"responses\":{" + Self.errors + "},\n"
        + "\"schemas\":{" + Self.schemas + "}"

    private static let securitySchemes = #"""
        "securitySchemes":{"token":{"type":"http","scheme":"bearer",
          "description":"The caller's token. None is needed if the relay has no callers configured."}}
        """#

    private static let parameters = #"""
        "parameters":{
          "partial":{"name":"partial","in":"query","schema":{"type":"boolean","default":false},
            "description":"Whether to store the other lines if some are wrong or in conflict. One push as application/json is stored or refused."},
          "id":{"name":"id","in":"path","required":true,"description":"The id of a push.",
            "schema":{"$ref":"#/components/schemas/ID"}},
          "webhook":{"name":"name","in":"path","required":true,"description":"The webhook's name in the settings.",
            "schema":{"type":"string","minLength":1}},
          "requestID":{"name":"id","in":"path","required":true,"description":"The id of a request that was given up.",
            "schema":{"type":"string","minLength":1}},
          "after":{"name":"after","in":"query","description":"The cursor of the previous page, or a position.",
            "schema":{"type":"string","pattern":"^[0-9]{1,18}(-[0-9a-f]{1,8})?$"}},
          "skipMissing":{"name":"skipMissing","in":"query","schema":{"type":"boolean","default":false},
            "description":"Whether to continue if outcomes after the cursor are missing, instead of 410."},
          "afterID":{"name":"after","in":"query","description":"The member next of the previous page.",
            "schema":{"$ref":"#/components/schemas/ID"}},
          "limit":{"name":"limit","in":"query","description":"The most elements of the page.",
            "schema":{"type":"integer","minimum":1,"maximum":1000,"default":100}},
          "ifMatch":{"name":"if-match","in":"header","required":true,
            "description":"The ETag of the settings that the new ones replace, or * for any.","example":"*",
            "schema":{"type":"string","minLength":1}},
          "appOfParked":{"name":"app","in":"query","required":true,
            "description":"The name of an app, also one that the settings do not have any more.","schema":{"type":"string"}},
          "reason":{"name":"reason","in":"query",
            "description":"Only pushes whose outcome has this reason of APNs, or this code.","schema":{"type":"string"}},
          "app":{"name":"app","in":"query","description":"Only pushes of this app.","schema":{"type":"string"}}}
        """#

    /// The errors by status. Every one has the same form; the code tells them apart.
    private static let errors = [
        (400, "The request is wrong: badJSON, invalidPush, invalidSettings or badQuery. Nothing was changed.", ""),
        (401, "The token is missing or unknown: unauthorized.", Self.header("www-authenticate", "string")),
        (403, "The caller may not do this: forbidden.", ""),
        (404, "It does not exist, is no longer kept, or belongs to an app of others: notFound.", ""),
        (408, "The body did not arrive in time: timeout. The connection is closed.", ""),
        (
            409,
            "conflict (another push has this idempotency key or id), written (it is being "
                + "sent) or settled.", ""
        ),
        (
            410,
            "Outcomes after the cursor were deleted, or the queue was restored from a backup: outcomesMissing. The member "
                + "missing names their positions, and the cursor to continue with.", ""
        ),
        (412, "Others have changed the settings since you read them: preconditionFailed. Nothing was stored.", ""),
        (413, "bodyTooLarge or tooManyPushes. Nothing was stored.", ""),
        (415, "The content type is not one of those of the request: unsupportedMediaType.", ""),
        (428, "The header If-Match is missing: preconditionRequired.", ""),
        (429, "The caller hands in too many pushes: rateLimited.", Self.header("retry-after", "integer")),
        (500, "An error in the relay: internalError.", ""),
        (
            503, "queueFull, unavailable, undecided or shuttingDown. Try again later.",
            Self.header("retry-after", "integer")
        ),
    ].map { status, description, headers in
        """
        "E\(status)":{"description":"\(description)",\(headers)
          "content":{"application/json":{"schema":{"$ref":"#/components/schemas/Error"}}}}
        """
    }.joined(separator: ",\n")

    private static func header(_ name: String, _ type: String) -> String {
        "\"headers\":{\"\(name)\":{\"required\":true,\"schema\":{\"type\":\"\(type)\"}}},"
    }
}
