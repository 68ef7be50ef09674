extension APIDescription {
    /// The body of a request that replaces the settings, with an example.
    static let settingsBody = #"""
        "requestBody":{"required":true,"description":"All settings: a member that is left out has its default.",
          "content":{"application/json":{"schema":{"$ref":"#/components/schemas/Settings"},
            "example":{"maxConnections":40,"pausedApps":["fern"]}}}},
        """#

    /// The response with the settings, with an example.
    static let settings = #"""
        "200":{"description":"The settings.",
          "headers":{"etag":{"required":true,"description":"The version of the settings.","schema":{"type":"string"}}},
          "content":{"application/json":{"schema":{"$ref":"#/components/schemas/Settings"},
            "example":{"maxConnections":40,"pausedApps":["fern"]}}}}
        """#

    static let settingsSchema = #"""
        "Settings":{"type":"object","additionalProperties":false,"properties":{
          "maxConnections":{"type":"integer","minimum":1,"maximum":100000,
            "description":"The most connections of all relays together per client, which has one credential and environment. Default: each relay's setting."},
          "maxInFlight":{"type":"integer","minimum":1,"maximum":100000,
            "description":"The most pushes in flight of each relay. Default: the relay's setting."},
          "pausedApps":{"type":"array","items":{"type":"string"},
            "description":"The names of apps whose pushes stay queued. Their deadlines still count."}}}
        """#
}
