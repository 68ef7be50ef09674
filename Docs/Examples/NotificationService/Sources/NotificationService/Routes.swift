import APNSPool
import Hummingbird

/// The body of a message or an announcement.
struct Message: Decodable {
    var title: String
}

/// The response to an announcement.
struct Announcement: ResponseEncodable {
    var id: Int64
    var recipients: [String: Int]
}

/// The outcomes of a message's pushes, one for each device, in their coded form.
struct MessageOutcomes: ResponseEncodable {
    var outcomes: [PushOutcome]

    /// The status for callers that do not read the outcomes.
    var status: HTTPResponse.Status {
        if self.outcomes.contains(where: { $0.certainty == .accepted }) { return .ok }
        if self.outcomes.contains(where: { $0.canResend }) { return .serviceUnavailable }
        // A push whose outcome is unknown may have arrived. The caller decides whether it may arrive twice.
        if self.outcomes.contains(where: { $0.certainty == .unknown }) { return .gatewayTimeout }
        return self.outcomes.allSatisfy { $0.invalidation != nil } ? .notFound : .badGateway
    }
}

func makeRouter(
    sender: any PushSender,
    store: DeviceStore,
    isReady: @escaping @Sendable () async -> Bool
) -> Router<BasicRequestContext> {
    let router = Router()

    router.put("users/:user/devices/:token") { _, context in
        let text = try context.parameters.require("token")
        guard let token = try? DeviceToken(text) else {
            throw HTTPError(.badRequest, message: "a device token consists of hexadecimal digits")
        }
        try await store.register(token, of: try context.parameters.require("user"))
        return HTTPResponse.Status.noContent
    }

    router.post("users/:user/messages") { request, context in
        let message = try await request.decode(as: Message.self, context: context)
        let notification = PushNotification(topic: topic, alert: Alert(title: message.title))
        var result = MessageOutcomes(outcomes: [])
        for token in try await store.tokens(of: try context.parameters.require("user")) {
            let outcome = await sender.deliver(notification, to: token, options: DeliveryOptions(deadline: .seconds(5)))
            try await store.removeIfDead(token, after: outcome)
            result.outcomes.append(outcome)
        }
        return EditedResponse(status: result.status, response: result)
    }

    router.post("announcements") { request, context in
        let id = try await store.announce(try await request.decode(as: Message.self, context: context).title)
        let announcement = Announcement(id: id, recipients: try await store.counts(of: id))
        return EditedResponse(status: .accepted, response: announcement)
    }

    router.get("announcements/:id") { _, context in
        let id = try context.parameters.require("id", as: Int64.self)
        return Announcement(id: id, recipients: try await store.counts(of: id))
    }

    router.get("live") { _, _ in HTTPResponse.Status.ok }
    router.get("ready") { _, _ in await isReady() ? HTTPResponse.Status.ok : .serviceUnavailable }
    return router
}
