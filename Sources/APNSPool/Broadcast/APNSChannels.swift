// This folder handles broadcasts and the management of their channels. The types that describe them are in
// APNSModel/Broadcast.

public import APNSModel
import APNSTransport

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// A channel that was created.
public struct CreatedChannel: Sendable, Hashable, Codable {
    /// The channel's id, for broadcasts and for other channel calls.
    public var id: ChannelID
    /// Which of its broadcasts APNs stores, as you requested.
    public var storage: MessageStoragePolicy
    /// The call's `apns-request-id`.
    public var requestID: APNSID
    /// How many times the call was sent.
    public var attempts: Int
}

/// APNs' description of a channel.
public struct BroadcastChannel: Sendable, Hashable, Codable {
    /// The channel's id, as you passed it.
    public var id: ChannelID
    /// Which of its broadcasts APNs stores.
    public var storage: MessageStoragePolicy
    /// The push type in APNs' spelling: `LiveActivity`.
    public var pushType: String
    /// The call's `apns-request-id`.
    public var requestID: APNSID
    /// How many times the call was sent.
    public var attempts: Int
}

/// The result of deleting a channel.
public struct ChannelDeletion: Sendable, Hashable, Codable {
    /// False if there was no such channel (404 `BadPath`). Most often it was deleted earlier, perhaps by an attempt of
    /// this call whose response was lost. APNs responds identically for an unknown app.
    public var existed: Bool
    /// The call's `apns-request-id`.
    public var requestID: APNSID
    /// How many times the call was sent.
    public var attempts: Int
}

/// All channels of an app in one environment.
public struct ChannelList: Sendable, Hashable, Codable {
    /// The channels' ids, in APNs' order; at most 10,000, APNs' limit for an app.
    public var ids: [ChannelID]
    /// The call's `apns-request-id`.
    public var requestID: APNSID
    /// How many times the call was sent.
    public var attempts: Int
}

/// Options for one channel call.
public struct ChannelCallOptions: Sendable, Hashable {
    /// The time limit for the whole call; nil uses the client's default.
    public var deadline: Duration?
    /// Sent as `apns-request-id` with each attempt and used as the error's `apnsID`; nil generates one.
    public var requestID: APNSID?

    /// - Parameters:
    ///   - deadline: The time limit for the whole call; nil uses the client's default.
    ///   - requestID: Sent as `apns-request-id`; nil generates one.
    public init(deadline: Duration? = nil, requestID: APNSID? = nil) {
        self.deadline = deadline
        self.requestID = requestID
    }
}

extension PushError.Code {
    /// APNs performed the call, but its response lacks required data or cannot be read.
    public static let unreadableResponse = PushError.Code(rawValue: "unreadableResponse")
}

/// Creates, reads, deletes and lists broadcast channels on APNs' management host.
///
/// ```swift
/// let channel = try await client.channels.create(for: "com.example.app", storage: .mostRecentMessage)
/// let all = try await client.channels.list(for: "com.example.app").ids
/// try await client.channels.delete(channel.id, for: "com.example.app")
/// ```
/// Each call ends by its deadline, with a result or one `PushError`. The error's certainty says whether APNs may have
/// performed the call. Calls that can be repeated (all but `create`) are resent if their outcome is unknown. A `create`
/// is not, because that might create a second channel: after the certainty `unknown`, use `list` to find out whether
/// there is a new one.
///
/// The host and port are `environment.managementHost` and `managementPort`. The first call opens the connection, and it
/// closes after `pool.idleTimeout` without calls. Calls without a bundle id are for the client's default topic. Provider
/// token, proxy, trust and timeouts are those of the pushes.
/// Source: Apple, "Sending channel management requests to APNs".
public struct APNSChannels: Sendable {
    let context: SendContext
    let defaultTopic: String?

    /// Creates a channel.
    ///
    /// - Parameters:
    ///   - bundleID: The app's bundle id, without the suffix of a push type; nil for the client's default topic. You
    ///     must enable broadcasts for the app in the developer portal.
    ///   - storage: Which of its broadcasts APNs stores.
    ///   - options: The call's deadline and id.
    /// - Throws: `PushError`. Its rejections include `BroadcastFeatureNotEnabled`, and `CannotCreateChannelConfig` if
    ///   the app has 10,000 channels. `unreadableResponse` if the response does not name the new channel.
    public func create(
        for bundleID: String? = nil,
        storage: MessageStoragePolicy = .noMessage,
        options: ChannelCallOptions = ChannelCallOptions()
    ) async throws(PushError) -> CreatedChannel {
        let response = try await self.call(.create(storage), bundleID: bundleID, options: options)
        guard let id = response.result.fields.first("apns-channel-id").flatMap({ ChannelID(fromAPNs: $0) }) else {
            throw response.unreadable(
                "APNs created the channel, but its response has no channel id: find it in the list of channels"
            )
        }
        return CreatedChannel(id: id, storage: storage, requestID: response.requestID, attempts: response.attempts)
    }

    /// Reads a channel's settings.
    ///
    /// - Throws: `PushError`. Its rejection is `BadChannelId` for a channel that never existed and
    ///   `ChannelNotRegistered` for a deleted one.
    public func read(
        _ id: ChannelID,
        for bundleID: String? = nil,
        options: ChannelCallOptions = ChannelCallOptions()
    ) async throws(PushError) -> BroadcastChannel {
        let response = try await self.call(.read(id), bundleID: bundleID, options: options)
        guard let body = response.decode(ReadBody.self) else {
            throw response.unreadable("APNs' response about the channel cannot be read")
        }
        return BroadcastChannel(
            id: id,
            storage: MessageStoragePolicy(rawValue: body.storage),
            pushType: body.pushType,
            requestID: response.requestID,
            attempts: response.attempts
        )
    }

    /// Deletes a channel permanently. A stored broadcast may still be delivered.
    ///
    /// - Returns: The result, even if there was no such channel: see ``ChannelDeletion/existed``.
    /// - Throws: `PushError` for any other response, and if there was no response.
    @discardableResult
    public func delete(
        _ id: ChannelID,
        for bundleID: String? = nil,
        options: ChannelCallOptions = ChannelCallOptions()
    ) async throws(PushError) -> ChannelDeletion {
        do {
            let response = try await self.call(.delete(id), bundleID: bundleID, options: options)
            return ChannelDeletion(existed: true, requestID: response.requestID, attempts: response.attempts)
        } catch {
            guard let rejection = error.rejection, error.certainty == .rejected, rejection.status == 404,
                rejection.reason == .badPath, let requestID = error.apnsID
            else { throw error }
            return ChannelDeletion(existed: false, requestID: requestID, attempts: error.attempts)
        }
    }

    /// Lists all channels of an app, in APNs' order.
    ///
    /// - Throws: `PushError`; `unreadableResponse` if the response is not a list.
    public func list(
        for bundleID: String? = nil,
        options: ChannelCallOptions = ChannelCallOptions()
    ) async throws(PushError) -> ChannelList {
        let response = try await self.call(.list, bundleID: bundleID, options: options)
        guard let body = response.decode(ListBody.self) else {
            throw response.unreadable("APNs' list of channels cannot be read")
        }
        let ids = body.channels.compactMap { ChannelID(fromAPNs: $0) }
        guard ids.count == body.channels.count else {
            throw response.unreadable("APNs' list contains invalid channel ids")
        }
        return ChannelList(ids: ids, requestID: response.requestID, attempts: response.attempts)
    }
}

extension APNSClient {
    /// Manages the channels for broadcasts.
    public var channels: APNSChannels { APNSChannels(context: self.runtime.sending, defaultTopic: self.defaultTopic) }
}

private struct ReadBody: Decodable {
    var storage: Int
    var pushType: String

    private enum CodingKeys: String, CodingKey {
        case storage = "message-storage-policy"
        case pushType = "push-type"
    }
}

private struct ListBody: Decodable {
    var channels: [String]
}

extension ChannelResponse {
    fileprivate func decode<Body: Decodable>(_ type: Body.Type) -> Body? {
        try? JSONDecoder().decode(type, from: Data(self.result.body))
    }

    /// APNs performed the call, but an error must not have the certainty `accepted`.
    fileprivate func unreadable(_ message: String) -> PushError {
        PushError(
            code: .unreadableResponse,
            certainty: .unknown,
            apnsID: self.requestID,
            attempts: self.attempts,
            message: message
        )
    }
}
