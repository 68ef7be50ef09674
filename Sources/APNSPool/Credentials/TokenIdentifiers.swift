#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The checked key id and team id of a provider token.
///
/// Both have 10 letters and digits, so they are easily confused, and APNs responds to a swap only with 403
/// `InvalidProviderToken`. These checks detect such mistakes early.
struct TokenIdentifiers: Sendable, Hashable {
    static let length = 10

    let keyID: String
    let teamID: String

    /// - Parameters:
    ///   - keyID: The key id, or `nil` to take it from the name of the key file. Surrounding blanks are ignored.
    ///   - teamID: The team id. Surrounding blanks are ignored.
    ///   - keyFile: The path of the key file, if there is one.
    /// - Throws: `missing`, `conflict` or `identifierInvalid`.
    init(keyID: String?, teamID: String, keyFile: String?) throws(APNSConfigurationError) {
        let given = keyID?.withoutBlanksAround
        let team = teamID.withoutBlanksAround
        let keyFile = keyFile.map(Self.nameWithKeyID)
        let named = keyFile.flatMap(Self.keyID(inNameOf:))
        guard !team.isEmpty else {
            throw APNSConfigurationError(
                .missing,
                setting: "authentication.teamID",
                message: "The team id is empty. It is on the membership page of the developer account."
            )
        }
        guard let key = given ?? named, !key.isEmpty else {
            throw APNSConfigurationError(
                .missing,
                setting: "authentication.keyID",
                message: keyFile.map {
                    "There is no key id, and the name of '\($0)' does not contain one (AuthKey_XXXXXXXXXX.p8). "
                        + "Give authentication.keyID; it is on the key's page of the developer account."
                } ?? "The key id is empty. It is on the key's page of the developer account."
            )
        }
        if let named, key != named {
            let isSwapped = team == named
            throw APNSConfigurationError(
                .conflict,
                setting: "authentication.keyID",
                message: isSwapped
                    ? "The file's name says that \(named) is the key id, but it is given as the team id. "
                        + "Are key id and team id swapped?"
                    : "The key id is \(key), but the file's name says \(named). "
                        + "Leave authentication.keyID out, or give the key's own file."
            )
        }
        guard key != team else {
            throw APNSConfigurationError(
                .conflict,
                setting: named == nil ? "authentication.keyID" : "authentication.teamID",
                message: named == nil
                    ? "Key id and team id are both \(key). At least one of them is wrong: check both."
                    : "The team id is \(team), but the file's name says that this is the key id. "
                        + "Give the team id; it is on the membership page of the developer account."
            )
        }
        try Self.check(key, "key id", setting: "authentication.keyID")
        try Self.check(team, "team id", setting: "authentication.teamID")
        self.keyID = key
        self.teamID = team
    }

    /// The key id in a file name of the form `AuthKey_XXXXXXXXXX.p8`, the developer portal's form. A suffix that a
    /// browser adds to a second copy, as in `AuthKey_XXXXXXXXXX (1).p8`, is ignored.
    private static func keyID(inNameOf path: String) -> String? {
        guard let name = path.split(separator: "/").last, name.hasPrefix("AuthKey_"), name.hasSuffix(".p8") else {
            return nil
        }
        let id = name.dropFirst("AuthKey_".count).prefix { $0.isASCII && ($0.isLetter || $0.isNumber) }
        return id.utf8.count == self.length ? String(id) : nil
    }

    /// Returns the path. If only the target of a symbolic link has a key id in its name, returns the target's path, so
    /// that you can change keys by changing the link.
    private static func nameWithKeyID(_ path: String) -> String {
        guard self.keyID(inNameOf: path) == nil, let target = realpath(path, nil) else { return path }
        defer { free(target) }
        let name = String(cString: target)
        return self.keyID(inNameOf: name) == nil ? path : name
    }

    private static func check(_ id: String, _ name: String, setting: String) throws(APNSConfigurationError) {
        let isPlain = id.utf8.allSatisfy { self.isLetterOrDigit($0) }
        guard !isPlain || id.utf8.count != self.length else { return }
        var message = "A \(name) has \(self.length) letters and digits, but '\(id.prefix(40))' "
        message += isPlain ? "has \(id.utf8.count)." : "has other characters or another length."
        if id.contains(".") {
            message += " It looks like a bundle id, which belongs in the topic."
        } else {
            message += " Check the key id and the team id: they may be swapped, or one may be another value."
        }
        throw APNSConfigurationError(.identifierInvalid, setting: setting, message: message)
    }

    private static func isLetterOrDigit(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "a")...UInt8(ascii: "z"):
            true
        default: false
        }
    }
}
