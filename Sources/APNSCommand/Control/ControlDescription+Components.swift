extension ControlDescription {
    /// The second half of the document.
    static let components = #"""
          "components": {
            "securitySchemes": {
              "token": {"type": "http", "scheme": "bearer", "description": "Only with --control-token."}
            },
            "parameters": {
              "token": {
                "name": "token", "in": "query", "description": "A device token, in either case.",
                "schema": {"type": "string"}
              },
              "topic": {
                "name": "topic", "in": "query",
                "description": "The value of apns-topic, or the bundle ID of a broadcast.",
                "schema": {"type": "string"}
              },
              "pushType": {
                "name": "pushType", "in": "query", "description": "The value of apns-push-type.",
                "schema": {"type": "string"}
              },
              "outcome": {
                "name": "outcome", "in": "query", "description": "What the client received.",
                "schema": {"type": "string", "enum": ["accepted", "rejected", "no-response"]}
              },
              "reason": {
                "name": "reason", "in": "query", "description": "The reason of a rejection.",
                "schema": {"type": "string"}
              },
              "apnsID": {
                "name": "apnsID", "in": "query", "description": "The value of apns-id.",
                "schema": {"type": "string", "format": "uuid"}
              },
              "collapseID": {
                "name": "collapseID", "in": "query", "description": "The value of apns-collapse-id.",
                "schema": {"type": "string"}
              },
              "channelID": {
                "name": "channelID", "in": "query", "description": "The channel of a broadcast.",
                "schema": {"type": "string"}
              },
              "after": {
                "name": "after", "in": "query", "description": "Only pushes after this position.",
                "schema": {"type": "integer", "minimum": 0, "maximum": 9223372036854775807}
              },
              "deviceToken": {
                "name": "token", "in": "path", "required": true, "description": "A device token.",
                "schema": {"type": "string", "pattern": "^([0-9A-Fa-f]{2})+$", "maxLength": 1000}
              },
              "device": {
                "name": "id", "in": "path", "required": true, "description": "The id of a device, such as d1.",
                "schema": {"type": "string", "minLength": 1}
              },
              "proof": {
                "name": "x-apns-simulator", "in": "header", "required": true,
                "description": "Any value. A page of another origin cannot send this header.",
                "schema": {"type": "string", "pattern": "^[A-Za-z0-9]+$"}
              }
            },
            "responses": {
              "Error": {
                "description": "What is wrong, and what to do.",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
              }
            },
            "schemas": {
              "Error": {
                "type": "object", "required": ["error"],
                "properties": {
                  "error": {
                    "type": "object", "required": ["code", "message"],
                    "properties": {"code": {"type": "string"}, "message": {"type": "string"}}
                  },
                  "received": {"type": "integer"}
                }
              },
              "State": {
                "type": "object",
                "required": [
                  "endpoint", "version", "startedMilliseconds", "nowMilliseconds", "counts", "responses",
                  "connections", "kept", "keep", "dropped", "resets", "lastOrder", "faults", "devices", "commands",
                  "settings"
                ],
                "properties": {
                  "endpoint": {"type": "string"}, "version": {"type": "string"},
                  "startedMilliseconds": {"type": "integer"}, "nowMilliseconds": {"type": "integer"},
                  "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
                  "responses": {"type": "object", "additionalProperties": {"type": "integer"}},
                  "connections": {"type": "object", "additionalProperties": {"type": "integer"}},
                  "kept": {"type": "integer"}, "keep": {"type": ["integer", "null"]}, "dropped": {"type": "integer"},
                  "resets": {"type": "integer"}, "lastOrder": {"type": "integer"}, "faults": {"type": "integer"},
                  "devices": {"type": "integer"}, "settings": {"$ref": "#/components/schemas/SettingValues"},
                  "commands": {
                    "type": "array",
                    "items": {
                      "type": "object", "required": ["title", "command"],
                      "properties": {"title": {"type": "string"}, "command": {"type": "string"}}
                    }
                  }
                }
              },
              "SettingValues": {
                "type": "object", "required": ["offlineStorage", "limitsProviderTokenUpdates"],
                "properties": {
                  "offlineStorage": {"type": "string", "enum": ["latest", "all", "collapse-id"]},
                  "limitsProviderTokenUpdates": {
                    "type": ["boolean", "null"],
                    "description": "Whether a second token of a key in 20 minutes gets 429. Null: none is required."
                  }
                }
              },
              "Settings": {
                "allOf": [
                  {"$ref": "#/components/schemas/SettingValues"},
                  {
                    "type": "object", "required": ["offlineStorageRules"],
                    "properties": {
                      "offlineStorageRules": {
                        "type": "array",
                        "items": {
                          "type": "object", "required": ["name", "message", "source"],
                          "properties": {
                            "name": {"type": "string"}, "message": {"type": "string"}, "source": {"type": "string"}
                          }
                        }
                      }
                    }
                  }
                ]
              },
              "SettingsChange": {
                "type": "object", "additionalProperties": false,
                "properties": {
                  "offlineStorage": {"enum": ["latest", "all", "collapse-id", null]},
                  "limitsProviderTokenUpdates": {"type": ["boolean", "null"]}
                }
              },
              "Push": {
                "type": "object",
                "required": [
                  "order", "connection", "streamID", "timeMilliseconds", "delayMilliseconds", "payloadBytes", "fate",
                  "outcome", "isProcessed"
                ],
                "properties": {
                  "order": {"type": "integer"}, "connection": {"type": "integer"}, "streamID": {"type": "integer"},
                  "timeMilliseconds": {"type": "integer"}, "delayMilliseconds": {"type": "integer"},
                  "payloadBytes": {"type": "integer"},
                  "fate": {"type": "string", "enum": ["responded", "stalled", "reset", "above-goaway", "lost"]},
                  "outcome": {"type": "string", "enum": ["accepted", "rejected", "no-response"]},
                  "isProcessed": {"type": "boolean"}, "deviceToken": {"type": "string"},
                  "channelID": {"type": "string"}, "apnsID": {"type": "string"}, "topic": {"type": "string"},
                  "pushType": {"type": "string"}, "priority": {"type": "integer"}, "expiration": {"type": "integer"},
                  "collapseID": {"type": "string"}, "status": {"type": "integer"}, "reason": {"type": "string"},
                  "faults": {"type": "array", "items": {"type": "string"}}, "summary": {"type": "string"}
                }
              },
              "PushPage": {
                "type": "object", "required": ["pushes", "total", "dropped"],
                "properties": {
                  "pushes": {"type": "array", "items": {"$ref": "#/components/schemas/Push"}},
                  "next": {"type": "integer"}, "total": {"type": "integer"}, "dropped": {"type": "integer"}
                }
              },
              "PushLine": {
                "allOf": [
                  {"$ref": "#/components/schemas/Push"},
                  {
                    "type": "object",
                    "properties": {"payload": {"type": "string"}, "payloadBase64": {"type": "string"}}
                  }
                ]
              },
              "PushDetail": {
                "allOf": [
                  {"$ref": "#/components/schemas/PushLine"},
                  {
                    "type": "object", "required": ["headers", "payloadLimit", "hints"],
                    "properties": {
                      "headers": {"type": "object", "additionalProperties": {"type": "string"}},
                      "keyID": {"type": "string"}, "teamID": {"type": "string"},
                      "payloadJSON": {}, "payloadLimit": {"type": "integer"},
                      "response": {
                        "type": "object", "required": ["status", "headers", "body"],
                        "properties": {
                          "status": {"type": "integer"}, "reason": {"type": "string"},
                          "headers": {"type": "object", "additionalProperties": {"type": "string"}},
                          "body": {"type": "string"}
                        }
                      },
                      "hints": {
                        "type": "array",
                        "items": {
                          "type": "object", "required": ["message", "source"],
                          "properties": {"message": {"type": "string"}, "source": {"type": "string"}}
                        }
                      },
                      "device": {"type": "string"}
                    }
                  }
                ]
              },
              "TokenState": {
                "type": "object", "required": ["token", "state"],
                "properties": {
                  "token": {"type": "string"},
                  "state": {
                    "type": "string",
                    "enum": ["active", "unregistered", "expired", "other-environment", "other-topic", "busy"]
                  },
                  "sinceMilliseconds": {"type": "integer"}
                }
              },
              "NewTokenState": {
                "type": "object", "required": ["state"], "additionalProperties": false,
                "properties": {
                  "state": {
                    "type": "string",
                    "enum": ["active", "unregistered", "expired", "other-environment", "other-topic", "busy"]
                  },
                  "sinceMilliseconds": {"type": ["integer", "null"], "minimum": 0, "maximum": 9223372036854775807}
                }
              },
              "DeviceToken": {
                "type": "object", "required": ["token", "topic"], "additionalProperties": false,
                "properties": {
                  "token": {"type": "string", "pattern": "^([0-9A-Fa-f]{2})+$", "maxLength": 1000},
                  "kind": {"enum": ["app", "activity", "push-to-start", null]},
                  "topic": {"type": "string", "minLength": 1, "maxLength": 255}
                }
              },
              "Subscription": {
                "type": "object", "required": ["channelID", "topic"], "additionalProperties": false,
                "properties": {
                  "channelID": {"type": "string", "minLength": 1}, "topic": {"type": "string", "minLength": 1}
                }
              },
              "NewDevice": {
                "type": "object", "additionalProperties": false,
                "properties": {
                  "name": {"type": ["string", "null"]},
                  "tokens": {"type": ["array", "null"], "items": {"$ref": "#/components/schemas/DeviceToken"}}
                }
              },
              "DeviceChange": {
                "type": "object", "additionalProperties": false,
                "properties": {"name": {"type": ["string", "null"]}, "isOnline": {"type": ["boolean", "null"]}}
              },
              "Device": {
                "type": "object", "required": ["id", "name", "isOnline", "tokens", "subscriptions"],
                "properties": {
                  "id": {"type": "string"}, "name": {"type": "string"}, "isOnline": {"type": "boolean"},
                  "tokens": {
                    "type": "array",
                    "items": {
                      "type": "object", "required": ["token", "kind", "topic"],
                      "properties": {
                        "token": {"type": "string"},
                        "kind": {"type": "string", "enum": ["app", "activity", "push-to-start"]},
                        "topic": {"type": "string"}
                      }
                    }
                  },
                  "subscriptions": {
                    "type": "array",
                    "items": {
                      "type": "object", "required": ["channelID", "topic"],
                      "properties": {"channelID": {"type": "string"}, "topic": {"type": "string"}}
                    }
                  }
                }
              },
              "Snapshot": {
                "allOf": [
                  {"$ref": "#/components/schemas/Device"},
                  {
                    "type": "object",
                    "required": [
                      "nowMilliseconds", "apps", "activities", "waiting", "undelivered", "notes", "counts"
                    ],
                    "properties": {
                      "nowMilliseconds": {"type": "integer"},
                      "apps": {"type": "array", "items": {"$ref": "#/components/schemas/App"}},
                      "activities": {"type": "array", "items": {"$ref": "#/components/schemas/Activity"}},
                      "waiting": {
                        "type": "array",
                        "items": {
                          "type": "object", "required": ["order", "topic", "expiration"],
                          "properties": {
                            "order": {"type": "integer"}, "topic": {"type": "string"},
                            "channelID": {"type": "string"}, "expiration": {"type": "integer"}
                          }
                        }
                      },
                      "undelivered": {
                        "type": "array",
                        "items": {
                          "type": "object", "required": ["order", "rule", "message", "source"],
                          "properties": {
                            "order": {"type": "integer"}, "rule": {"type": "string"}, "message": {"type": "string"},
                            "source": {"type": "string"}
                          }
                        }
                      },
                      "notes": {
                        "type": "array",
                        "items": {
                          "type": "object", "required": ["order", "message"],
                          "properties": {"order": {"type": "integer"}, "message": {"type": "string"}}
                        }
                      },
                      "counts": {"type": "object", "additionalProperties": {"type": "integer"}}
                    }
                  }
                ]
              },
              "App": {
                "type": "object", "required": ["topic", "notifications", "backgroundWakes", "wakes"],
                "properties": {
                  "topic": {"type": "string"}, "badge": {"type": "integer"},
                  "notifications": {"type": "array", "items": {"$ref": "#/components/schemas/Notification"}},
                  "backgroundWakes": {"type": "integer"},
                  "wakes": {"type": "object", "additionalProperties": {"type": "integer"}}
                }
              },
              "Notification": {
                "type": "object",
                "required": ["order", "interruptionLevel", "isCritical", "deliveredMilliseconds", "replaced"],
                "properties": {
                  "order": {"type": "integer"}, "title": {"type": "string"}, "subtitle": {"type": "string"},
                  "body": {"type": "string"}, "threadID": {"type": "string"}, "interruptionLevel": {"type": "string"},
                  "category": {"type": "string"}, "sound": {"type": "string"}, "isCritical": {"type": "boolean"},
                  "collapseID": {"type": "string"}, "deliveredMilliseconds": {"type": "integer"},
                  "replaced": {"type": "integer"}
                }
              },
              "Activity": {
                "type": "object", "required": ["topic", "state", "history", "historyTotal"],
                "properties": {
                  "token": {"type": "string"}, "channelID": {"type": "string"}, "topic": {"type": "string"},
                  "state": {"type": "string", "enum": ["active", "stale", "ended", "dismissed"]},
                  "attributesType": {"type": "string"}, "attributes": {}, "contentState": {},
                  "timestamp": {"type": "integer"}, "staleDate": {"type": "integer"},
                  "dismissalDate": {"type": "integer"},
                  "alert": {
                    "type": "object", "properties": {"title": {"type": "string"}, "body": {"type": "string"}}
                  },
                  "history": {
                    "type": "array",
                    "items": {
                      "type": "object", "required": ["order", "event", "isIgnored"],
                      "properties": {
                        "order": {"type": "integer"}, "event": {"type": "string"}, "timestamp": {"type": "integer"},
                        "contentState": {}, "isIgnored": {"type": "boolean"}, "reason": {"type": "string"}
                      }
                    }
                  },
                  "historyTotal": {"type": "integer"}
                }
              },
              "Fault": {
                "type": "object", "required": ["effect"], "additionalProperties": false,
                "properties": {
                  "when": {"type": "object"}, "effect": {"$ref": "#/components/schemas/Effect"}
                }
              },
              "Effect": {
                "type": "object", "required": ["kind"],
                "properties": {
                  "kind": {
                    "type": "string",
                    "enum": [
                      "respond", "early-response", "delay", "pause", "stall", "refuse", "reset", "goaway", "drop",
                      "silence", "alert", "settings", "frame", "malformed", "ping-flood", "settings-flood",
                      "slow-reader", "clock", "listener-down", "close-on-accept", "never-speak", "handshake-stall",
                      "tls", "rapid-reset-limit"
                    ]
                  }
                }
              },
              "ActiveFault": {
                "type": "object", "required": ["id", "when", "effect", "matched", "applied"],
                "properties": {
                  "id": {"type": "integer"}, "when": {"type": "object"},
                  "effect": {"$ref": "#/components/schemas/Effect"},
                  "matched": {"type": "integer"}, "applied": {"type": "integer"}
                }
              },
              "Script": {
                "anyOf": [
                  {"$ref": "#/components/schemas/Fault"},
                  {"type": "array", "items": {"$ref": "#/components/schemas/Fault"}},
                  {
                    "type": "object", "required": ["faults"], "additionalProperties": false,
                    "properties": {
                      "seed": {"type": ["integer", "null"], "minimum": 0, "maximum": 9223372036854775807},
                      "faults": {"type": "array", "items": {"$ref": "#/components/schemas/Fault"}}
                    }
                  }
                ]
              },
              "Faults": {
                "type": "object", "required": ["faults"],
                "properties": {
                  "faults": {"type": "array", "items": {"$ref": "#/components/schemas/ActiveFault"}}
                }
              },
              "AppliedPreset": {
                "type": "object", "required": ["faults", "connections"],
                "properties": {
                  "faults": {"type": "array", "items": {"$ref": "#/components/schemas/ActiveFault"}},
                  "connections": {"type": "integer"}
                }
              }
            }
          }
        }
        """#
}
