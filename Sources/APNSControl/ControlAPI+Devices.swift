import APNSModel
import APNSSimulator
import NIOHTTP1

/// Virtual devices.
extension ControlAPI {
    func devices(_ request: ControlRequest, _ path: [String]) throws -> ControlResponse {
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

    private func allDevices(_ request: ControlRequest) throws -> ControlResponse {
        try self.allow([.GET, .POST], request)
        if request.method != .POST {
            let devices: [JSONObject] = self.simulator.devices.map { device in
                [
                    "id": device.id, "name": device.name, "isOnline": device.isOnline, "tokens": device.tokens,
                    "subscriptions": device.subscriptions,
                ]
            }
            return .json(["devices": devices])
        }
        let object = try request.object(["name", "tokens"])
        let name = try object.read("name", .text) ?? "Device"
        let tokens = try (object.read("tokens", .list(of: .reader)) ?? []).map(Self.token)
        let id = try self.simulator.addDevice(name, tokens: tokens)
        return try self.snapshot(id, status: .created)
    }

    private func device(_ request: ControlRequest, _ id: String) throws -> ControlResponse {
        try self.allow([.GET, .PATCH, .DELETE], request)
        switch request.method {
        case .PATCH:
            let object = try request.object(["name", "isOnline"])
            let name = try object.read("name", .text)
            let isOnline = try object.read("isOnline", .bool)
            try self.simulator.updateDevices { devices, now throws(VirtualDeviceError) in
                if let name { try devices.rename(id, to: name) }
                if let isOnline { try devices.setOnline(id, isOnline, now: now) }
            }
        case .DELETE:
            try self.simulator.updateDevices { devices, _ throws(VirtualDeviceError) in try devices.remove(id) }
            return .noContent
        default: break
        }
        return try self.snapshot(id)
    }

    private func link(_ request: ControlRequest, _ id: String) throws -> ControlResponse {
        try self.allow([.POST], request)
        let object = try request.object(Self.tokenKeys)
        let token = try Self.token(object)
        try self.simulator.updateDevices { devices, now throws(VirtualDeviceError) in
            try devices.link(id, token, now: now)
        }
        return try self.snapshot(id, status: .created)
    }

    private func unlink(_ request: ControlRequest, _ id: String, _ token: String) throws
        -> ControlResponse
    {
        try self.allow([.DELETE], request)
        try self.simulator.updateDevices { devices, _ throws(VirtualDeviceError) in
            try devices.unlink(id, token: token.lowercased())
        }
        return .noContent
    }

    private func subscriptions(_ request: ControlRequest, _ id: String) throws -> ControlResponse {
        try self.allow([.POST, .DELETE], request)
        if request.method == .DELETE {
            guard let channelID = request.query["channelID"] else {
                throw ControlError.invalid(
                    "channelID is missing. Add ?channelID= with the percent-encoded id of the channel."
                )
            }
            try self.simulator.updateDevices { devices, _ throws(VirtualDeviceError) in
                try devices.unsubscribe(id, channelID: channelID)
            }
            return .noContent
        }
        let object = try request.object(["channelID", "topic"])
        let subscription = VirtualDevice.Subscription(
            channelID: try Self.required(object, "channelID"),
            topic: try Self.required(object, "topic")
        )
        try self.simulator.updateDevices { devices, now throws(VirtualDeviceError) in
            try devices.subscribe(id, subscription, now: now)
        }
        return try self.snapshot(id, status: .created)
    }

    private func addWebPushKeys(_ request: ControlRequest, _ id: String) throws -> ControlResponse {
        try self.allow([.POST], request)
        let object = try request.object(["subscription", "privateKey", "publicKey", "auth"])
        let keys = VirtualDevice.WebPushKeys(
            subscription: try Self.required(object, "subscription"),
            privateKey: try Self.required(object, "privateKey"),
            publicKey: try Self.required(object, "publicKey"),
            auth: try Self.required(object, "auth")
        )
        try self.simulator.updateDevices { devices, _ throws(VirtualDeviceError) in try devices.add(id, keys) }
        return try self.snapshot(id, status: .created)
    }

    // MARK: Helpers

    private static let tokenKeys = ["token", "kind", "topic"]

    private static func token(_ object: JSONReader) throws(JSONFieldError) -> VirtualDevice.Token {
        try object.allow(self.tokenKeys)
        return VirtualDevice.Token(
            token: try self.required(object, "token"),
            kind: try object.read("kind", .choice) ?? .app,
            topic: try self.required(object, "topic")
        )
    }

    private static func required(_ object: JSONReader, _ key: String) throws(JSONFieldError) -> String {
        guard let text = try object.read(key, .text), !text.isEmpty else { throw object.error(key, "expected a text") }
        return text
    }

    private func snapshot(_ id: String, status: HTTPResponseStatus = .ok) throws -> ControlResponse {
        guard let snapshot = self.simulator.snapshot(ofDevice: id) else {
            throw ControlError.notFound("There is no device '\(id)'. See /v1/devices.")
        }
        return .json(snapshot, status: status)
    }
}
