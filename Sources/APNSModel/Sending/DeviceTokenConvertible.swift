/// The address of a push: a ``DeviceToken``, or its text as the app reported it.
///
/// To send to a type of your own, such as a row of a database, implement ``deviceToken()``.
public protocol DeviceTokenConvertible {
    /// The device token.
    ///
    /// - Throws: `ValidationError` for text that is not a device token.
    func deviceToken() throws(ValidationError) -> DeviceToken
}

extension DeviceToken: DeviceTokenConvertible {
    /// Returns this token.
    @inlinable
    public func deviceToken() -> DeviceToken { self }
}

extension String: DeviceTokenConvertible {
    /// The device token with these hexadecimal digits.
    ///
    /// - Throws: `ValidationError`: `deviceTokenEmpty`, `deviceTokenTooLong`, `deviceTokenNotHexadecimal` or
    ///   `deviceTokenOddLength`.
    @inlinable
    public func deviceToken() throws(ValidationError) -> DeviceToken { try DeviceToken(self) }
}

extension Substring: DeviceTokenConvertible {
    /// The device token with these hexadecimal digits.
    ///
    /// - Throws: `ValidationError`, as for `String`.
    @inlinable
    public func deviceToken() throws(ValidationError) -> DeviceToken { try DeviceToken(self) }
}
