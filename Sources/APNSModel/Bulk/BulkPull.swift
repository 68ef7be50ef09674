/// The result of requesting the next element from the input of a bulk call.
@usableFromInline
package enum BulkPull {
    case push(PreparedPush, DeviceToken, APNSID?)
    /// The element has no valid push.
    case invalid(PushError)
    /// No element is available yet: the input wakes the call when one arrives.
    case later
    case end

    /// The single push of a call, or the reason why it cannot be prepared.
    @usableFromInline
    typealias Push = Result<PreparedPush, ValidationError>

    @inlinable
    init(_ push: Push, _ id: APNSID?, token: () throws -> some DeviceTokenConvertible) {
        do {
            self = .push(try push.get(), try token().deviceToken(), id)
        } catch {
            self = .invalid(Self.invalid(error, id))
        }
    }

    @inlinable
    init<Push: PushContent, Token: DeviceTokenConvertible>(
        _ id: APNSID?,
        defaultTopic: String?,
        push: () throws -> (Push, Token)
    ) {
        do {
            let (push, token) = try push()
            self = .push(try push.prepared(defaultTopic: defaultTopic), try token.deviceToken(), id)
        } catch {
            self = .invalid(Self.invalid(error, id))
        }
    }

    @usableFromInline
    static func invalid(_ error: any Error, _ id: APNSID?) -> PushError {
        if let error = error as? ValidationError { return .validation(error, apnsID: id) }
        return .validation(ValidationError(code: .rowInvalid, field: "row", value: "\(error)"), apnsID: id)
    }
}

extension BulkPull.Push {
    /// Prepares the push of a call once.
    @usableFromInline
    init(_ push: some PushContent, defaultTopic: String?) {
        self = Result { () throws(ValidationError) in try push.prepared(defaultTopic: defaultTopic) }
    }
}
