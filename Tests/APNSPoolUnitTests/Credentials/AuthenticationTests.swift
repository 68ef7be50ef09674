import Foundation
import APNSTransport
import Synchronization
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

struct AuthenticationKeyTests {
    static let keyID = "9UC9ZLQ8YW"
    static let teamID = "ABBM6U9RM5"

    static func pem(_ text: String) -> APNSAuthentication {
        .token(privateKeyPEM: text, keyID: keyID, teamID: teamID)
    }

    static let base64Body = body(of: KeyTexts.p256)

    static let goodTexts: [(name: String, text: String)] = [
        ("as the portal gives it", KeyTexts.p256),
        ("no final newline", String(KeyTexts.p256.dropLast())),
        ("CRLF", KeyTexts.p256.replacingOccurrences(of: "\n", with: "\r\n")),
        ("CR only", KeyTexts.p256.replacingOccurrences(of: "\n", with: "\r")),
        ("whitespace around it", " \t\n\n" + KeyTexts.p256 + "\n \r\n"),
        ("blanks at the line ends", KeyTexts.p256.replacingOccurrences(of: "\n", with: " \n")),
        ("byte order mark", "\u{FEFF}" + KeyTexts.p256),
        (#"\n as two characters"#, KeyTexts.p256.replacingOccurrences(of: "\n", with: #"\n"#)),
        (#"\\n as three characters"#, KeyTexts.p256.replacingOccurrences(of: "\n", with: #"\\n"#)),
        (#"\r\n as four characters"#, KeyTexts.p256.replacingOccurrences(of: "\n", with: #"\r\n"#)),
        ("quotes around it", "\"" + KeyTexts.p256.replacingOccurrences(of: "\n", with: #"\n"#) + "\"\n"),
        ("single quotes", "'" + KeyTexts.p256 + "'"),
        ("line ends replaced with blanks", KeyTexts.p256.replacingOccurrences(of: "\n", with: " ")),
        ("line ends removed", KeyTexts.p256.replacingOccurrences(of: "\n", with: "")),
        ("base64 of the PEM", Data(KeyTexts.p256.utf8).base64EncodedString()),
        (
            "base64 of the PEM in lines",
            Data(KeyTexts.p256.utf8).base64EncodedString(options: [.lineLength76Characters, .endLineWithLineFeed])
        ),
        (
            "base64 without padding",
            Data((KeyTexts.p256 + "\n").utf8).base64EncodedString().replacingOccurrences(of: "=", with: "")
        ),
        ("only the base64 lines", base64Body),
        ("SEC1", KeyTexts.p256SEC1),
        ("SEC1 after its curve parameters", KeyTexts.p256WithParameters),
        ("explicit curve parameters", KeyTexts.p256Explicit),
        ("a certificate first", KeyTexts.certificate + KeyTexts.p256),
        ("a truncated certificate first", KeyTexts.certificate.prefix(100) + "\n" + KeyTexts.p256),
        (
            "a truncated certificate first, line ends removed",
            (KeyTexts.certificate.prefix(100) + KeyTexts.p256).replacingOccurrences(of: "\n", with: "")
        ),
        ("text before it", "Bag Attributes\n    friendlyName: push\n" + KeyTexts.p256),
    ]

    @Test("The key of a .p8 file is read in every common form", arguments: goodTexts)
    func good(name: String, text: String) throws {
        let signer = try #require(try Self.pem(text).makeSigner(), "\(name)")
        #expect(signer.identifiers.keyID == Self.keyID)
    }

    static let badTexts: [(text: String, code: APNSConfigurationError.Code, words: String)] = [
        ("", .missing, "empty"),
        (" \n\t ", .missing, "empty"),
        ("\"\"", .missing, "empty"),
        (KeyTexts.rsa, .keyTypeWrong, "RSA"),
        (KeyTexts.rsaPKCS1, .keyTypeWrong, "RSA"),
        (
            KeyTexts.rsaPKCS1.replacingOccurrences(of: "RSA PRIVATE", with: "PRIVATE"), .keyTypeWrong, "RSA"
        ),
        (KeyTexts.p384, .keyTypeWrong, "P-384"),
        (KeyTexts.p521, .keyTypeWrong, "P-521"),
        (KeyTexts.secp256k1, .keyTypeWrong, "secp256k1"),
        (KeyTexts.secp256k1SEC1, .keyTypeWrong, "secp256k1"),
        (KeyTexts.ed25519, .keyTypeWrong, "ED25519"),
        (KeyTexts.encrypted, .keyEncrypted, "password"),
        (KeyTexts.encryptedSEC1, .keyEncrypted, "password"),
        (
            KeyTexts.encrypted.replacingOccurrences(of: "ENCRYPTED ", with: ""), .keyEncrypted, "password"
        ),
        (KeyTexts.certificate, .notAKey, "certificate"),
        (KeyTexts.publicKey, .notAKey, "public key"),
        ("-----BEGIN PRIVATE KEY-----\n", .keyDamaged, "cut off"),
        ("-----BEGIN PRIV", .keyDamaged, "cut off"),
        (String(KeyTexts.p256.prefix(120)), .keyDamaged, "cut off"),
        (String(KeyTexts.p256.prefix(90)) + "\n-----END PRIVATE KEY-----\n", .keyDamaged, "cut off"),
        (
            (KeyTexts.certificate + KeyTexts.p256.prefix(120)).replacingOccurrences(of: "\n", with: ""), .keyDamaged,
            "cut off"
        ),
        (
            String(KeyTexts.p256.prefix(90)) + "\n-----END EC PRIVATE KEY-----\n", .keyDamaged, "END PRIVATE KEY"
        ),
        ("-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n", .keyDamaged, "base64"),
        ("-----BEGIN PRIVATE KEY-----\n%%%%\n-----END PRIVATE KEY-----\n", .keyDamaged, "base64"),
        ("-----BEGIN PRIVATE KEY-----\nAAECAwQF\n-----END PRIVATE KEY-----\n", .keyDamaged, "not a complete"),
        ("-----BEGIN NEW THING-----\nAAECAwQF\n-----END NEW THING-----\n", .notAKey, "NEW THING"),
        ("hello", .notAKey, "BEGIN PRIVATE KEY"),
        ("AuthKey_9UC9ZLQ8YW.p8", .notAKey, "path of a file"),
        (Data("hello, world".utf8).base64EncodedString(), .notAKey, "BEGIN PRIVATE KEY"),
        (
            Data(Data(KeyTexts.p256.utf8).base64EncodedString().utf8).base64EncodedString(), .notAKey,
            "BEGIN PRIVATE KEY"
        ),
    ]

    @Test("Any other text is refused with an error that names the problem", arguments: badTexts)
    func bad(text: String, code: APNSConfigurationError.Code, words: String) throws {
        let error = try configurationError(Self.pem(text))
        #expect(error.code == code)
        #expect(error.setting == "authentication.privateKeyPEM")
        #expect(error.message.contains(words), "\(error)")
        #expect(!error.description.contains(Self.base64Body.prefix(20)))
    }

    @Test("Reading a truncated or altered key never traps")
    func mutilated() async {
        let texts = [KeyTexts.p256, KeyTexts.p256SEC1, KeyTexts.encrypted, KeyTexts.rsa]
        for text in texts {
            let bytes = Array(text.utf8)
            // The short form tests every third position.
            for length in stride(from: 0, to: bytes.count, by: TestScale.size(3, thorough: 1)) {
                await TestScale.letOthersRun()
                _ = try? PrivateKeyText.key(in: Array(bytes.prefix(length)), setting: "x")
                var changed = bytes
                changed[length] ^= 0x15
                _ = try? PrivateKeyText.key(in: changed, setting: "x")
            }
        }
    }

    @Test("A key with a changed bit is refused, unless the bit is outside the key's numbers")
    func bits() async throws {
        for text in [Self.base64Body, Self.body(of: KeyTexts.p256SEC1)] {
            let whole = Array(try #require(Data(base64Encoded: text)))
            let key = try PrivateKeyText.key(in: whole, setting: "x").publicKey.rawRepresentation
            var refused = 0
            for position in whole.indices {
                await TestScale.letOthersRun()
                // The short form changes one bit of each byte.
                for bit in TestScale.isThorough ? Array(0..<8) : [position % 8] {
                    var changed = whole
                    changed[position] ^= 1 << bit
                    if let read = try? PrivateKeyText.key(in: changed, setting: "x") {
                        #expect(read.publicKey.rawRepresentation == key, "bit \(bit) of byte \(position)")
                    } else {
                        refused += 1
                    }
                }
            }
            // At least the bytes of the private and the public key.
            #expect(refused >= TestScale.size(96, thorough: 96 * 8))
        }
    }

    @Test("A private key with the public key of another key is refused")
    func halves() throws {
        let own = Array(try #require(Data(base64Encoded: Self.base64Body)))
        let publicKey = try ES256PrivateKey(der: own).publicKey.rawRepresentation
        let other = try ES256PrivateKey().publicKey.rawRepresentation
        #expect(own.suffix(64).elementsEqual(publicKey))
        let error = try configurationError(
            .token(privateKeyBytes: own.dropLast(64) + other, keyID: Self.keyID, teamID: Self.teamID)
        )
        #expect(error.code == .keyDamaged)
        #expect(error.message.contains("do not match"))
    }

    @Test("A key without its public key is read, and a key with trailing bytes is refused")
    func lengths() throws {
        let whole = Array(try #require(Data(base64Encoded: Self.base64Body)))
        let publicKey = try ES256PrivateKey(der: whole).publicKey.rawRepresentation
        // The private number follows PrivateKeyInfo's 29 bytes and 7 bytes of its own structure.
        let number = whole[36..<68]
        let curve: [UInt8] = [0xA0, 0x0A, 0x06, 0x08, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01, 0x07]
        let sec1: [UInt8] = [0x30, 0x31, 0x02, 0x01, 0x01, 0x04, 0x20] + number + curve
        let bare: [UInt8] = [0x30, 0x25, 0x02, 0x01, 0x01, 0x04, 0x20] + number
        let algorithm: [UInt8] = [
            0x30, 0x13, 0x06, 0x07, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01,
            0x06, 0x08, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01, 0x07,
        ]
        let inner: [UInt8] = [0x02, 0x01, 0x00] + algorithm + [0x04, UInt8(bare.count)] + bare
        let wrapped: [UInt8] = [0x30, UInt8(inner.count)] + inner
        for bytes in [sec1, wrapped] {
            #expect(try PrivateKeyText.key(in: bytes, setting: "x").publicKey.rawRepresentation == publicKey)
            for extra in [[0], [0x05, 0x00]] as [[UInt8]] {
                let error = #expect(throws: APNSConfigurationError.self) {
                    try PrivateKeyText.key(in: bytes + extra, setting: "x")
                }
                #expect(error?.code == .keyDamaged)
            }
            #expect(throws: APNSConfigurationError.self) {
                try PrivateKeyText.key(in: bytes.dropLast(), setting: "x")
            }
        }
    }

    private static func body(of text: String) -> String {
        text.split(separator: "\n").dropFirst().dropLast().joined()
    }

    @Test("Binary data that is not a key is refused")
    func binary() throws {
        try withFile("AuthKey_9UC9ZLQ8YW.p8", [0xFF, 0xFE, 0x00, 0x30, 0x82]) { path in
            let error = try configurationError(.token(keyFile: path, teamID: Self.teamID))
            #expect(error.code == .notAKey)
            #expect(error.setting == "authentication.keyFile")
        }
    }

    @Test("A signer has the public key of its private key; without a token there is no signer")
    func publicHalf() throws {
        let publicKey = try ES256PublicKey(pem: KeyTexts.publicKey).rawRepresentation
        try #expect(Self.pem(KeyTexts.p256).makeSigner()?.publicKey == publicKey)
        try #expect(APNSAuthentication.withoutToken.makeSigner() == nil)
    }

    @Test("Neither description nor dump shows the key")
    func secrecy() {
        var dumped = ""
        let authentication = Self.pem(KeyTexts.p256)
        dump(authentication, to: &dumped)
        for text in ["\(authentication)", String(reflecting: authentication), dumped] {
            #expect(text.contains(Self.keyID))
            #expect(!text.contains(Self.base64Body.prefix(20)))
        }
    }

    @Test("A refresh interval outside 20 to 60 minutes is refused")
    func interval() throws {
        var authentication = Self.pem(KeyTexts.p256)
        for minutes in [20, 50, 60] {
            authentication.tokenRefreshInterval = .seconds(minutes * 60)
            try #expect(authentication.makeSigner() != nil)
        }
        for seconds in [Int.min, -1, 0, 1199, 3601, Int.max] {
            authentication.tokenRefreshInterval = .seconds(seconds)
            let error = try configurationError(authentication)
            #expect(error.code == .outOfRange)
            #expect(error.setting == "authentication.tokenRefreshInterval")
        }
    }
}

struct AuthenticationNameTests {
    static let keyID = "9UC9ZLQ8YW"
    static let teamID = "ABBM6U9RM5"

    @Test(
        "The key id is read from the file's name",
        arguments: ["AuthKey_9UC9ZLQ8YW.p8", "AuthKey_9UC9ZLQ8YW (1).p8", "AuthKey_9UC9ZLQ8YW-copy.p8"]
    )
    func named(name: String) throws {
        try withFile(name, KeyTexts.p256.utf8) { path in
            for keyID in [nil, Self.keyID, " \(Self.keyID)\n"] {
                let signer = try APNSAuthentication.token(keyFile: path, keyID: keyID, teamID: "ABBM6U9RM5\n")
                    .makeSigner()
                #expect(signer?.identifiers.keyID == Self.keyID)
                #expect(signer?.identifiers.teamID == Self.teamID)
            }
        }
    }

    @Test("A file with another name needs a key id", arguments: ["key.p8", "AuthKey_.p8", "AuthKey_9UC9ZLQ8Y.p8", "k"])
    func unnamed(name: String) throws {
        try withFile(name, KeyTexts.p256.utf8) { path in
            let error = try configurationError(.token(keyFile: path, teamID: Self.teamID))
            #expect(error.code == .missing)
            #expect(error.setting == "authentication.keyID")
            let named = APNSAuthentication.token(keyFile: path, keyID: Self.keyID, teamID: Self.teamID)
            try #expect(named.makeSigner() != nil)
        }
    }

    @Test("An unreadable key file produces an error with advice")
    func unreadable() throws {
        let directory = FileManager.default.temporaryDirectory.path
        let cases: [(path: String, code: APNSConfigurationError.Code, words: String)] = [
            ("", .missing, "path is empty"),
            ("/nonexistent/AuthKey_9UC9ZLQ8YW.p8", .fileUnreadable, "Check the path"),
            ("~/AuthKey_9UC9ZLQ8YW.p8", .fileUnreadable, "'~'"),
            (directory, .fileUnreadable, "directory"),
        ]
        for (path, code, words) in cases {
            let error = try configurationError(.token(keyFile: path, keyID: Self.keyID, teamID: Self.teamID))
            #expect(error.code == code)
            #expect(error.setting == "authentication.keyFile")
            #expect(error.message.contains(words), "\(error)")
        }
        try withFile("AuthKey_9UC9ZLQ8YW.p8", []) { path in
            try #expect(configurationError(.token(keyFile: path, teamID: Self.teamID)).code == .missing)
        }
        try withFile("AuthKey_9UC9ZLQ8YW.p8", [UInt8](repeating: 65, count: 70_000)) { path in
            let error = try configurationError(.token(keyFile: path, teamID: Self.teamID))
            #expect(error.message.contains("64 KiB"))
        }
    }

    @Test("A key id that contradicts the file's name is refused")
    func contradiction() throws {
        try withFile("AuthKey_9UC9ZLQ8YW.p8", KeyTexts.p256.utf8) { path in
            let swapped = try configurationError(.token(keyFile: path, keyID: Self.teamID, teamID: Self.keyID))
            #expect(swapped.code == .conflict)
            #expect(swapped.message.contains("swapped?"), "\(swapped)")

            let other = try configurationError(.token(keyFile: path, keyID: "KEYKEYKEY2", teamID: Self.teamID))
            #expect(other.code == .conflict)
            #expect(other.message.contains("KEYKEYKEY2") && other.message.contains(Self.keyID), "\(other)")

            let team = try configurationError(.token(keyFile: path, teamID: Self.keyID))
            #expect(team.code == .conflict)
            #expect(team.setting == "authentication.teamID")
        }
    }

    typealias BadNames = (
        keyID: String, teamID: String, code: APNSConfigurationError.Code, setting: String, words: String
    )

    static let badNames: [BadNames] = [
        ("9UC9ZLQ8YW", "9UC9ZLQ8YW", .conflict, "keyID", "both 9UC9ZLQ8YW"),
        ("9UC9ZLQ8Y", "ABBM6U9RM5", .identifierInvalid, "keyID", "has 9"),
        ("9UC9ZLQ8YWW", "ABBM6U9RM5", .identifierInvalid, "keyID", "swapped"),
        ("", "ABBM6U9RM5", .missing, "keyID", "empty"),
        ("9UC9ZLQ8YW", " ", .missing, "teamID", "empty"),
        ("9UC9ZLQ8YW", "com.example.app", .identifierInvalid, "teamID", "bundle id"),
        ("9UC9ZLQ8YW", "ABBM6U9RM\"", .identifierInvalid, "teamID", "10 letters and digits"),
        ("9UC9ZLQ8Y\u{E9}", "ABBM6U9RM5", .identifierInvalid, "keyID", "10 letters and digits"),
        ("9UC9\r\nQ8YW", "ABBM6U9RM5", .identifierInvalid, "keyID", "10 letters and digits"),
    ]

    @Test("Malformed key ids and team ids are refused", arguments: badNames.indices)
    func names(index: Int) throws {
        let (keyID, teamID, code, setting, words) = Self.badNames[index]
        let error = try configurationError(
            .token(privateKeyPEM: KeyTexts.p256, keyID: keyID, teamID: teamID)
        )
        #expect(error.code == code)
        #expect(error.setting == "authentication." + setting)
        #expect(error.message.contains(words), "\(error)")
    }

    @Test("The error's description names the setting, the fault and the code")
    func description() throws {
        let error = try configurationError(.token(keyFile: "/nonexistent/k.p8", keyID: Self.keyID, teamID: Self.teamID))
        #expect(error.description.hasPrefix("APNs client configuration, authentication.keyFile: There is no file"))
        #expect(error.description.hasSuffix("(file-unreadable)"))
        #expect(APNSConfigurationError.Code(rawValue: "conflict") == .conflict)
    }

    @Test("A path to a pipe or a device is refused without blocking", arguments: ["pipe", "device"])
    func noRegularFile(kind: String) async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = kind == "pipe" ? folder.appendingPathComponent("pipe.p8").path : "/dev/zero"
        if kind == "pipe" { try #require(mkfifo(path, 0o600) == 0) }
        let found = Mutex<APNSConfigurationError?>(nil)
        let hasEnded = Latch()
        Thread.detachNewThread {
            let authentication = APNSAuthentication.token(keyFile: path, keyID: "9UC9ZLQ8YW", teamID: "ABBM6U9RM5")
            do throws(APNSConfigurationError) {
                _ = try authentication.makeSigner()
            } catch {
                found.withLock { $0 = error }
            }
            hasEnded.open()
        }
        #expect(await ends { await hasEnded.wait() })
        // Unblocks a reader that waits for the pipe.
        let writer = open(path, O_WRONLY | O_NONBLOCK)
        if writer >= 0 { close(writer) }
        await hasEnded.wait()
        let error = try #require(found.withLock { $0 })
        #expect(error.code == .fileUnreadable && error.setting == "authentication.keyFile")
        #expect(error.message.contains("'\(path)' is not a regular file"), "\(error)")
    }
}
