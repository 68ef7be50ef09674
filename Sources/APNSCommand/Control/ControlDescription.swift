/// The OpenAPI 3.1 document of the control API, served at `/openapi.json`. A test compares its paths and methods with
/// the running API.
enum ControlDescription {
    static let text = Self.paths + Self.components

    private static let paths = #"""
        {
          "openapi": "3.1.0",
          "info": {
            "title": "apns simulator",
            "version": "1",
            "description": "Controls a simulator of APNs, and reads what it received."
          },
          "security": [{}, {"token": []}],
          "paths": {
            "/v1/state": {
              "get": {
                "summary": "Counts, connections and limits.",
                "responses": {
                  "200": {
                    "description": "The state.",
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/State"}}}
                  },
                  "default": {"$ref": "#/components/responses/Error"}
                }
              }
            },
            "/v1/settings": {
              "get": {
                "summary": "The settings that can change while the simulator runs.",
                "responses": {
                  "200": {
                    "description": "The settings.",
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Settings"}}}
                  },
                  "default": {"$ref": "#/components/responses/Error"}
                }
              },
              "patch": {
                "summary": "Change settings. 409 if the simulator requires no provider token and cannot limit them.",
                "parameters": [{"$ref": "#/components/parameters/proof"}],
                "requestBody": {
                  "required": true,
                  "content": {"application/json": {"schema": {"$ref": "#/components/schemas/SettingsChange"}}}
                },
                "responses": {
                  "200": {
                    "description": "The new settings.",
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Settings"}}}
                  },
                  "default": {"$ref": "#/components/responses/Error"}
                }
              }
            },
            "/v1/reset": {
              "post": {
                "summary": "Forget pushes, counts, faults, token states, devices and changed settings. Keys and channels stay.",
                "parameters": [{"$ref": "#/components/parameters/proof"}],
                "responses": {"204": {"description": "Done."}, "default": {"$ref": "#/components/responses/Error"}}
              }
            },
            "/v1/pushes": {
              "get": {
                "summary": "The pushes and broadcasts that match, oldest first.",
                "parameters": [
                  {"$ref": "#/components/parameters/token"}, {"$ref": "#/components/parameters/topic"},
                  {"$ref": "#/components/parameters/pushType"}, {"$ref": "#/components/parameters/outcome"},
                  {"$ref": "#/components/parameters/reason"}, {"$ref": "#/components/parameters/apnsID"},
                  {"$ref": "#/components/parameters/collapseID"}, {"$ref": "#/components/parameters/channelID"},
                  {"$ref": "#/components/parameters/after"},
                  {
                    "name": "before", "in": "query", "description": "Only pushes before this position.",
                    "schema": {"type": "integer", "minimum": 0, "maximum": 9223372036854775807}
                  },
                  {
                    "name": "limit", "in": "query", "description": "The maximum number of pushes; default 100.",
                    "schema": {"type": "integer", "minimum": 1, "maximum": 1000}
                  },
                  {
                    "name": "newest", "in": "query", "description": "Whether the newest come first.",
                    "schema": {"type": "boolean"}
                  }
                ],
                "responses": {
                  "200": {
                    "description": "A page.",
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/PushPage"}}}
                  },
                  "default": {"$ref": "#/components/responses/Error"}
                }
              }
            },
            "/v1/pushes/wait": {
              "get": {
                "summary": "Wait until count pushes match, including earlier ones; 408 after timeoutSeconds.",
                "parameters": [
                  {"$ref": "#/components/parameters/token"}, {"$ref": "#/components/parameters/topic"},
                  {"$ref": "#/components/parameters/pushType"}, {"$ref": "#/components/parameters/outcome"},
                  {"$ref": "#/components/parameters/reason"}, {"$ref": "#/components/parameters/apnsID"},
                  {"$ref": "#/components/parameters/collapseID"}, {"$ref": "#/components/parameters/channelID"},
                  {"$ref": "#/components/parameters/after"},
                  {
                    "name": "count", "in": "query", "description": "The number of pushes; default 1.",
                    "schema": {"type": "integer", "minimum": 1, "maximum": 1000}
                  },
                  {
                    "name": "timeoutSeconds", "in": "query", "description": "The longest time to wait; default 10.",
                    "schema": {"type": "integer", "minimum": 0, "maximum": 300}
                  }
                ],
                "responses": {
                  "200": {
                    "description": "The first count of the matching pushes.",
                    "content": {
                      "application/json": {
                        "schema": {
                          "type": "object", "required": ["pushes"],
                          "properties": {"pushes": {"type": "array", "items": {"$ref": "#/components/schemas/Push"}}}
                        }
                      }
                    }
                  },
                  "default": {"$ref": "#/components/responses/Error"}
                }
              }
            },
            "/v1/pushes/{order}": {
              "get": {
                "summary": "One push with headers, payload, response and hints.",
                "parameters": [
                  {
                    "name": "order", "in": "path", "required": true, "description": "Its position.",
                    "schema": {"type": "integer", "minimum": 1}
                  }
                ],
                "responses": {
                  "200": {
                    "description": "The push.",
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/PushDetail"}}}
                  },
                  "default": {"$ref": "#/components/responses/Error"}
                }
              }
            },
            "/v1/events": {
              "get": {
                "summary": "Server-Sent Events: push, state (each second), reset, and dropped.",
                "parameters": [
                  {"$ref": "#/components/parameters/after"},
                  {
                    "name": "last-event-id", "in": "header", "description": "Like after.",
                    "schema": {"type": "integer", "minimum": 0, "maximum": 9223372036854775807}
                  }
                ],
                "responses": {
                  "200": {
                    "description": "The stream.", "content": {"text/event-stream": {"schema": {"type": "string"}}}
                  },
                  "default": {"$ref": "#/components/responses/Error"}
                }
              }
            },
            "/v1/ledger": {
              "get": {
                "summary": "All kept pushes with payloads, one JSON object (PushLine) on each line.",
                "responses": {
                  "200": {
                    "description": "The ledger. It is sent as text/plain if 'accept' names only that.",
                    "content": {
                      "application/x-ndjson": {"schema": {"type": "string"}},
                      "text/plain": {"schema": {"type": "string"}}
                    }
                  },
                  "default": {"$ref": "#/components/responses/Error"}
                }
              }
            },
            "/v1/tokens": {
              "get": {
                "summary": "The device tokens with a state other than active.",
                "responses": {
                  "200": {
                    "description": "The tokens.",
                    "content": {
                      "application/json": {
                        "schema": {
                          "type": "object", "required": ["tokens"],
                          "properties": {
                            "tokens": {"type": "array", "items": {"$ref": "#/components/schemas/TokenState"}}
                          }
                        }
                      }
                    }
                  },
                  "default": {"$ref": "#/components/responses/Error"}
                }
              }
            },
            "/v1/tokens/{token}": {
              "put": {
                "summary": "Set the state of a device token.",
                "parameters": [
                  {"$ref": "#/components/parameters/deviceToken"}, {"$ref": "#/components/parameters/proof"}
                ],
                "requestBody": {
                  "required": true,
                  "content": {"application/json": {"schema": {"$ref": "#/components/schemas/NewTokenState"}}}
                },
                "responses": {
                  "200": {
                    "description": "The new state.",
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/TokenState"}}}
                  },
                  "default": {"$ref": "#/components/responses/Error"}
                }
              },
              "delete": {
                "summary": "Make a device token active again.",
                "parameters": [
                  {"$ref": "#/components/parameters/deviceToken"}, {"$ref": "#/components/parameters/proof"}
                ],
                "responses": {"204": {"description": "Done."}, "default": {"$ref": "#/components/responses/Error"}}
              }
            },
            "/v1/tokens/{token}/device": {
              "get": {
                "summary": "What the device with this token holds. If there is none, what an online one would hold.",
                "parameters": [{"$ref": "#/components/parameters/deviceToken"}],
                "responses": {
                  "200": {
                    "description": "The device.",
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Snapshot"}}}
                  },
                  "default": {"$ref": "#/components/responses/Error"}
                }
              }
            },
            "/v1/devices": {
              "get": {
                "summary": "All devices.",
                "responses": {
                  "200": {
                    "description": "The devices.",
                    "content": {
                      "application/json": {
                        "schema": {
                          "type": "object", "required": ["devices"],
                          "properties": {
                            "devices": {"type": "array", "items": {"$ref": "#/components/schemas/Device"}}
                          }
                        }
                      }
                    }
                  },
                  "default": {"$ref": "#/components/responses/Error"}
                }
              },
              "post": {
                "summary": "Create a device.", "parameters": [{"$ref": "#/components/parameters/proof"}],
                "requestBody": {
                  "required": true,
                  "content": {"application/json": {"schema": {"$ref": "#/components/schemas/NewDevice"}}}
                },
                "responses": {
                  "201": {
                    "description": "The device.",
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Snapshot"}}}
                  },
                  "default": {"$ref": "#/components/responses/Error"}
                }
              }
            },
            "/v1/devices/{id}": {
              "get": {
                "summary": "What a device holds.", "parameters": [{"$ref": "#/components/parameters/device"}],
                "responses": {
                  "200": {
                    "description": "The device.",
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Snapshot"}}}
                  },
                  "default": {"$ref": "#/components/responses/Error"}
                }
              },
              "patch": {
                "summary": "Rename a device, or take it offline or online.",
                "parameters": [{"$ref": "#/components/parameters/device"}, {"$ref": "#/components/parameters/proof"}],
                "requestBody": {
                  "required": true,
                  "content": {"application/json": {"schema": {"$ref": "#/components/schemas/DeviceChange"}}}
                },
                "responses": {
                  "200": {
                    "description": "The device.",
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Snapshot"}}}
                  },
                  "default": {"$ref": "#/components/responses/Error"}
                }
              },
              "delete": {
                "summary": "Remove a device.",
                "parameters": [{"$ref": "#/components/parameters/device"}, {"$ref": "#/components/parameters/proof"}],
                "responses": {"204": {"description": "Done."}, "default": {"$ref": "#/components/responses/Error"}}
              }
            },
            "/v1/devices/{id}/tokens": {
              "post": {
                "summary": "Link a token to a device.",
                "parameters": [{"$ref": "#/components/parameters/device"}, {"$ref": "#/components/parameters/proof"}],
                "requestBody": {
                  "required": true,
                  "content": {"application/json": {"schema": {"$ref": "#/components/schemas/DeviceToken"}}}
                },
                "responses": {
                  "201": {
                    "description": "The device.",
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Snapshot"}}}
                  },
                  "default": {"$ref": "#/components/responses/Error"}
                }
              }
            },
            "/v1/devices/{id}/tokens/{token}": {
              "delete": {
                "summary": "Remove a token from a device.",
                "parameters": [
                  {"$ref": "#/components/parameters/device"}, {"$ref": "#/components/parameters/deviceToken"},
                  {"$ref": "#/components/parameters/proof"}
                ],
                "responses": {"204": {"description": "Done."}, "default": {"$ref": "#/components/responses/Error"}}
              }
            },
            "/v1/devices/{id}/subscriptions": {
              "post": {
                "summary": "Subscribe a device to a broadcast channel.",
                "parameters": [{"$ref": "#/components/parameters/device"}, {"$ref": "#/components/parameters/proof"}],
                "requestBody": {
                  "required": true,
                  "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Subscription"}}}
                },
                "responses": {
                  "201": {
                    "description": "The device.",
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Snapshot"}}}
                  },
                  "default": {"$ref": "#/components/responses/Error"}
                }
              },
              "delete": {
                "summary": "End a subscription.",
                "parameters": [
                  {"$ref": "#/components/parameters/device"},
                  {
                    "name": "channelID", "in": "query", "required": true, "description": "The channel.",
                    "schema": {"type": "string"}
                  },
                  {"$ref": "#/components/parameters/proof"}
                ],
                "responses": {"204": {"description": "Done."}, "default": {"$ref": "#/components/responses/Error"}}
              }
            },
            "/v1/faults": {
              "get": {
                "summary": "The faults that can still apply.",
                "responses": {
                  "200": {
                    "description": "The faults.",
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Faults"}}}
                  },
                  "default": {"$ref": "#/components/responses/Error"}
                }
              },
              "post": {
                "summary": "Add a fault, a list of faults, or a script.",
                "parameters": [{"$ref": "#/components/parameters/proof"}],
                "requestBody": {
                  "required": true,
                  "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Script"}}}
                },
                "responses": {
                  "201": {
                    "description": "The added faults.",
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Faults"}}}
                  },
                  "default": {"$ref": "#/components/responses/Error"}
                }
              },
              "delete": {
                "summary": "Remove all faults.", "parameters": [{"$ref": "#/components/parameters/proof"}],
                "responses": {"204": {"description": "Done."}, "default": {"$ref": "#/components/responses/Error"}}
              }
            },
            "/v1/faults/{id}": {
              "delete": {
                "summary": "Remove a fault.",
                "parameters": [
                  {
                    "name": "id", "in": "path", "required": true, "description": "The id of a fault.",
                    "schema": {"type": "integer"}
                  },
                  {"$ref": "#/components/parameters/proof"}
                ],
                "responses": {"204": {"description": "Done."}, "default": {"$ref": "#/components/responses/Error"}}
              }
            },
            "/v1/presets": {
              "get": {
                "summary": "Frequently used faults.",
                "responses": {
                  "200": {
                    "description": "The presets.",
                    "content": {
                      "application/json": {
                        "schema": {
                          "type": "object", "required": ["presets"],
                          "properties": {
                            "presets": {
                              "type": "array",
                              "items": {
                                "type": "object", "required": ["name", "title", "description"],
                                "properties": {
                                  "name": {"type": "string"}, "title": {"type": "string"},
                                  "description": {"type": "string"}
                                }
                              }
                            }
                          }
                        }
                      }
                    }
                  },
                  "default": {"$ref": "#/components/responses/Error"}
                }
              }
            },
            "/v1/presets/{name}": {
              "post": {
                "summary": "Apply a preset.",
                "parameters": [
                  {
                    "name": "name", "in": "path", "required": true, "description": "The name of a preset.",
                    "schema": {"type": "string", "enum": ["unavailable", "goaway", "drop", "slow", "refuse-key"]}
                  },
                  {"$ref": "#/components/parameters/proof"}
                ],
                "responses": {
                  "200": {
                    "description": "The added faults, and how many connections it acted on.",
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/AppliedPreset"}}}
                  },
                  "default": {"$ref": "#/components/responses/Error"}
                }
              }
            }
          },

        """#
}
