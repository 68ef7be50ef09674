// This folder: broadcasts and the management of their channels. The values that describe them are in
// APNSModel/Broadcast.

public import APNSModel
import HTTP2Wire

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// A channel that was made.
public struct CreatedChannel: Sendable, Hashable, Codable {
    /// The channel's id, for broadcasts and for the other calls.
    public var id: ChannelID
    /// What APNs keeps of its broadcasts, as it was asked for.
    public var storage: MessageStoragePolicy
    /// The call's `apns-request-id`, as APNs answered it.
    public var requestID: APNSID
    /// How often the call was sent.
    public var attempts: Int
}

/// What APNs says of a channel.
public struct BroadcastChannel: Sendable, Hashable, Codable {
    /// The channel's id, as it was asked for.
    public var id: ChannelID
    /// What APNs keeps of its broadcasts.
    public var storage: MessageStoragePolicy
    /// As APNs writes it: `LiveActivity`.
    public var pushType: String
    /// The call's `apns-request-id`.
    public var requestID: APNSID
    /// How often the call was sent.
    public var attempts: Int
}

/// That a channel is gone.
public struct ChannelDeletion: Sendable, Hashable, Codable {
    /// False: there was no such channel (404 `BadPath`), most often because it was deleted before, perhaps by a try of
    /// this very call whose answer was lost. The response to an app that APNs does not know is the same.
    public var existed: Bool
    /// The call's `apns-request-id`.
    public var requestID: APNSID
    /// How often the call was sent.
    public var attempts: Int
}

/// All channels of an app in one environment.
public struct ChannelList: Sendable, Hashable, Codable {
    /// The channels' ids, in the order in which APNs names them; at most 10,000, its limit for an app.
    public var ids: [ChannelID]
    /// The call's `apns-request-id`.
    public var requestID: APNSID
    /// How often the call was sent.
    public var attempts: Int
}

/// What may be said about one call beyond what it does.
public struct ChannelCallOptions: Sendable, Hashable {
    /// How long it may take in all; nil takes the client's default.
    public var deadline: Duration?
    /// Sent as `apns-request-id` with each try, and the error's `apnsID`; nil has one made.
    public var requestID: APNSID?

    /// - Parameters:
    ///   - deadline: how long it may take in all; nil takes the client's default.
    ///   - requestID: sent as `apns-request-id`; nil has one made.
    public init(deadline: Duration? = nil, requestID: APNSID? = nil) {
        self.deadline = deadline
        self.requestID = requestID
    }
}

extension PushError.Code {
    /// APNs did what was asked, and its response lacks what it should hold, or cannot be read.
    public static let unreadableResponse = PushError.Code(rawValue: "unreadableResponse")
}

/// The channels that broadcasts go to: made, looked at, deleted and listed on APNs' management host.
///
/// ```swift
/// let channel = try await client.channels.create(for: "com.example.app", storage: .mostRecentMessage)
/// let all = try await client.channels.list(for: "com.example.app").ids
/// try await client.channels.delete(channel.id, for: "com.example.app")
/// ```
/// Each call ends by its deadline, with a result or one `PushError`, whose certainty says whether it may have been done.
/// Calls that can be repeated (all but `create`) are sent again where their fate is unknown; a `create` never is, since
/// it might make a second channel: after the certainty `unknown`, `list` shows whether there is a new one.
///
/// The host and port are those of `environment.managementHost` and `managementPort`; the connection is made by the first
/// call and closed after `pool.idleTimeout` without any. Provider token, proxy, trust and time-outs are those of the
/// pushes. Source: Apple, "Sending channel management requests to APNs".
public struct APNSChannels: Sendable {
    let context: SendContext

    /// Makes a channel.
    ///
    /// - Parameters:
    ///   - bundleID: the app, without the suffix of a push type. Broadcast must be switched on for it in the developer
    ///     portal.
    ///   - storage: what APNs keeps of its broadcasts.
    ///   - options: the call's deadline and id.
    /// - Throws: `PushError`; among its rejections are `BroadcastFeatureNotEnabled`, and `CannotCreateChannelConfig` when
    ///   the app has 10,000 channels. `unreadableResponse` if the response does not name the new channel.
    public func create(
        for bundleID: String,
        storage: MessageStoragePolicy = .noMessage,
        options: ChannelCallOptions = ChannelCallOptions()
    ) async throws(PushError) -> CreatedChannel {
        let response = try await self.call(.create(storage), bundleID: bundleID, options: options)
        guard let id = response.result.fields.first("apns-channel-id").flatMap({ ChannelID(fromAPNs: $0) }) else {
            throw response.unreadable(
                "APNs made a channel, but its response does not name it: it is in the list of all"
            )
        }
        return CreatedChannel(id: id, storage: storage, requestID: response.requestID, attempts: response.attempts)
    }

    /// Looks at a channel.
    ///
    /// - Throws: `PushError`; its rejection is `BadChannelId` for a channel that there never was, `ChannelNotRegistered`
    ///   for one that was deleted.
    public func read(
        _ id: ChannelID,
        for bundleID: String,
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

    /// Deletes a channel for good. A stored broadcast may still go out.
    ///
    /// - Returns: also for a channel that is not there: see ``ChannelDeletion/existed``.
    /// - Throws: `PushError`, for all responses but that one, and where none came.
    @discardableResult
    public func delete(
        _ id: ChannelID,
        for bundleID: String,
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

    /// Lists all channels of an app, in the order in which APNs names them.
    ///
    /// - Throws: `PushError`; `unreadableResponse` if the list is none.
    public func list(
        for bundleID: String,
        options: ChannelCallOptions = ChannelCallOptions()
    ) async throws(PushError) -> ChannelList {
        let response = try await self.call(.list, bundleID: bundleID, options: options)
        guard let body = response.decode(ListBody.self) else {
            throw response.unreadable("APNs' list of channels cannot be read")
        }
        let ids = body.channels.compactMap { ChannelID(fromAPNs: $0) }
        guard ids.count == body.channels.count else {
            throw response.unreadable("APNs' list has channel ids that are none")
        }
        return ChannelList(ids: ids, requestID: response.requestID, attempts: response.attempts)
    }
}

extension APNSClient {
    /// The channels that broadcasts go to.
    public var channels: APNSChannels { APNSChannels(context: self.runtime.sending) }
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

    /// It was done, but to say `accepted` an error has no right.
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
