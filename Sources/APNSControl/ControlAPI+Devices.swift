import APNSModel
import APNSSimulator
import NIOHTTP1

/// Virtual devices.
extension ControlAPI {
    func devices(_ request: ControlRequest, _ path: [String]) throws(ControlError) -> ControlResponse {
        try request.allowQuery(path.count == 2 && path[1] == "subscriptions" ? ["channelID"] : [])
        guard let id = path.first else { return try self.allDevices(request) }
        switch (path.dropFirst().first, path.count) {
        case (nil, _): return try self.device(request, id)
        case ("tokens", 2): return try self.link(request, id)
        case ("tokens", 3): return try self.unlink(request, id, path[2])
        case ("subscriptions", 2): return try self.subscriptions(request, id)
        case ("web-push-keys", 2): return try self.addWebPushKeys(request, id)
        default: throw self.unknownPath(request)
        }
    }

    private func allDevices(_ request: ControlRequest) throws(ControlError) -> ControlResponse {
        try self.allow([.GET, .POST], request)
        if request.method != .POST {
            return .json(.object(["devices": .array(self.simulator.devices.map(DeviceJSON.device))]))
        }
        let object = try request.object(["name", "tokens"])
        let (name, tokens) = try ControlError.mapping { () throws(FaultScriptError) in
            var tokens: [VirtualDevice.Token] = []
            for (index, value) in (try object.array("tokens") ?? []).enumerated() {
                tokens.append(try Self.token(JSONReader(value, path: "tokens[\(index)]")))
            }
            return (try object.string("name") ?? "Device", tokens)
        }
        let id = try Self.mapping { () throws(VirtualDeviceError) in try self.simulator.addDevice(name, tokens: tokens)
        }
        return try self.snapshot(id, status: .created)
    }

    private func device(_ request: ControlRequest, _ id: String) throws(ControlError) -> ControlResponse {
        try self.allow([.GET, .PATCH, .DELETE], request)
        switch request.method {
        case .PATCH:
            let object = try request.object(["name", "isOnline"])
            let (name, isOnline) = try ControlError.mapping { () throws(FaultScriptError) in
                (try object.string("name"), try object.bool("isOnline"))
            }
            try self.update { devices, now throws(VirtualDeviceError) in
                if let name { try devices.rename(id, to: name) }
                if let isOnline { try devices.setOnline(id, isOnline, now: now) }
            }
        case .DELETE:
            try self.update { devices, _ throws(VirtualDeviceError) in try devices.remove(id) }
            return .noContent
        default: break
        }
        return try self.snapshot(id)
    }

    private func link(_ request: ControlRequest, _ id: String) throws(ControlError) -> ControlResponse {
        try self.allow([.POST], request)
        let object = try request.object(Self.tokenKeys)
        let token = try ControlError.mapping { () throws(FaultScriptError) in try Self.token(object) }
        try self.update { devices, now throws(VirtualDeviceError) in try devices.link(id, token, now: now) }
        return try self.snapshot(id, status: .created)
    }

    private func unlink(_ request: ControlRequest, _ id: String, _ token: String) throws(ControlError)
        -> ControlResponse
    {
        try self.allow([.DELETE], request)
        try self.update { devices, _ throws(VirtualDeviceError) in try devices.unlink(id, token: token.lowercased()) }
        return .noContent
    }

    private func subscriptions(_ request: ControlRequest, _ id: String) throws(ControlError) -> ControlResponse {
        try self.allow([.POST, .DELETE], request)
        if request.method == .DELETE {
            guard let channelID = request.query["channelID"] else {
                throw .invalid("channelID is missing. Add ?channelID= with the percent-encoded id of the channel.")
            }
            try self.update { devices, _ throws(VirtualDeviceError) in
                try devices.unsubscribe(id, channelID: channelID)
            }
            return .noContent
        }
        let object = try request.object(["channelID", "topic"])
        let subscription = try ControlError.mapping { () throws(FaultScriptError) in
            VirtualDevice.Subscription(
                channelID: try Self.required(object, "channelID"),
                topic: try Self.required(object, "topic")
            )
        }
        try self.update { devices, now throws(VirtualDeviceError) in
            try devices.subscribe(id, subscription, now: now)
        }
        return try self.snapshot(id, status: .created)
    }

    private func addWebPushKeys(_ request: ControlRequest, _ id: String) throws(ControlError) -> ControlResponse {
        try self.allow([.POST], request)
        let object = try request.object(["subscription", "privateKey", "publicKey", "auth"])
        let keys = try ControlError.mapping { () throws(FaultScriptError) in
            VirtualDevice.WebPushKeys(
                subscription: try Self.required(object, "subscription"),
                privateKey: try Self.required(object, "privateKey"),
                publicKey: try Self.required(object, "publicKey"),
                auth: try Self.required(object, "auth")
            )
        }
        try self.update { devices, _ throws(VirtualDeviceError) in try devices.add(id, keys) }
        return try self.snapshot(id, status: .created)
    }

    // MARK: Helpers

    private static let tokenKeys = ["token", "kind", "topic"]

    private static func token(_ object: JSONReader) throws(FaultScriptError) -> VirtualDevice.Token {
        try object.allow(self.tokenKeys)
        return VirtualDevice.Token(
            token: try self.required(object, "token"),
            kind: try object.choice("kind", of: VirtualDevice.TokenKind.self) ?? .app,
            topic: try self.required(object, "topic")
        )
    }

    private static func required(_ object: JSONReader, _ key: String) throws(FaultScriptError) -> String {
        guard let text = try object.string(key), !text.isEmpty else { throw object.error(key, "expected a text") }
        return text
    }

    private func snapshot(
        _ id: String,
        status: HTTPResponseStatus = .ok
    ) throws(ControlError) -> ControlResponse {
        guard let snapshot = self.simulator.snapshot(ofDevice: id) else {
            throw .notFound("There is no device '\(id)'. See /v1/devices.")
        }
        return .json(DeviceJSON.snapshot(snapshot), status: status)
    }

    private func update(
        _ body: (inout VirtualDevices, Int64) throws(VirtualDeviceError) -> Void
    ) throws(ControlError) {
        try Self.mapping { () throws(VirtualDeviceError) in try self.simulator.updateDevices(body) }
    }

    private static func mapping<Value>(_ body: () throws(VirtualDeviceError) -> Value) throws(ControlError) -> Value {
        do throws(VirtualDeviceError) {
            return try body()
        } catch {
            let status: HTTPResponseStatus =
                switch error.code {
                case .deviceUnknown, .tokenUnknown, .channelUnknown: .notFound
                case .tokenTaken, .limitReached: .conflict
                default: .badRequest
                }
            throw ControlError(status, error.code.rawValue, error.message)
        }
    }
}
