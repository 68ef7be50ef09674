import APNSPool
import ArgumentParser

/// Where options come from beside the command line.
struct ConfigurationOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Read what the command line and the environment do not say from this JSON file. [env: APNS_CONFIG]",
            valueName: "file"
        ),
        completion: .file(extensions: ["json"])
    )
    var config: String?

    func sources(_ environment: EnvironmentVariables) throws -> SettingSources {
        let sources = SettingSources(environment: environment)
        guard let path = sources.setting("--config", self.config, "APNS_CONFIG", "") else { return sources }
        return SettingSources(environment: environment, file: try ConfigurationFile(path))
    }
}

/// Which key signs provider tokens.
struct KeyOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp("The .p8 file of the developer portal. [env: APNS_KEY_FILE]", valueName: "p8"),
        completion: .file(extensions: ["p8"])
    )
    var key: String?

    @Option(
        help: ArgumentHelp(
            "The key's id; taken from the name AuthKey_XXXXXXXXXX.p8 if left out. [env: APNS_KEY_ID]",
            valueName: "id"
        )
    )
    var keyID: String?

    @Option(help: ArgumentHelp("The id of the developer account's team. [env: APNS_TEAM_ID]", valueName: "id"))
    var teamID: String?

    @Option(
        help: ArgumentHelp(
            "Share the signed token through this file, so that all processes present one. [env: APNS_TOKEN_FILE]",
            valueName: "file"
        ),
        completion: .file()
    )
    var tokenFile: String?

    struct Key: Sendable {
        var file: Setting
        var id: Setting?
        var team: Setting
        var tokenFile: Setting?

        var authentication: APNSAuthentication {
            var authentication = APNSAuthentication.token(
                keyFile: self.file.text,
                keyID: self.id?.text,
                teamID: self.team.text
            )
            authentication.tokenSource = self.tokenFile.map { SharedFileTokenSource(path: $0.text) }
            return authentication
        }
    }

    func file(_ sources: SettingSources) -> Setting? {
        sources.setting("--key", self.key, "APNS_KEY_FILE", "apns.keyFile")
    }

    /// Nil without a key.
    func resolved(_ sources: SettingSources) throws -> Key? {
        let id = sources.setting("--key-id", self.keyID, "APNS_KEY_ID", "apns.keyID")
        let team = sources.setting("--team-id", self.teamID, "APNS_TEAM_ID", "apns.teamID")
        let tokenFile = sources.setting("--token-file", self.tokenFile, "APNS_TOKEN_FILE", "apns.tokenFile")
        guard let file = self.file(sources) else {
            // What stands in the environment may be meant for other calls.
            for given in [id, team, tokenFile] {
                if let given, given.isFromCommandLine {
                    throw UsageError("\(given.name) says whose key it is, but --key (or APNS_KEY_FILE) names none.")
                }
            }
            return nil
        }
        guard let team else {
            throw UsageError("--team-id (or APNS_TEAM_ID) is missing: the key in \(file.name) needs its team's id.")
        }
        return Key(file: file, id: id, team: team, tokenFile: tokenFile)
    }
}

/// A client certificate instead of a key.
struct CertificateOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "A client certificate instead of --key: PEM, or PKCS#12 with its key. [env: APNS_CERTIFICATE_FILE]",
            valueName: "pem|p12"
        ),
        completion: .file(extensions: ["pem", "p12", "pfx", "cer"])
    )
    var certificate: String?

    @Option(
        help: ArgumentHelp(
            "The certificate's private key, if it is in a file of its own. [env: APNS_CERTIFICATE_KEY_FILE]",
            valueName: "pem"
        ),
        completion: .file(extensions: ["pem", "key"])
    )
    var certificateKey: String?

    @Option(
        help: ArgumentHelp(
            "The first line of this file is the password of the certificate's key. [env: APNS_CERTIFICATE_PASSWORD_FILE]",
            valueName: "file"
        ),
        completion: .file()
    )
    var certificatePasswordFile: String?

    struct Certificate: Sendable {
        var file: Setting
        var authentication: APNSAuthentication
    }

    func file(_ sources: SettingSources) -> Setting? {
        sources.setting("--certificate", self.certificate, "APNS_CERTIFICATE_FILE", "apns.certificateFile")
            ?? sources.setting("--certificate", nil, "APNS_PKCS12_FILE", "apns.pkcs12.file")
    }

    /// - Parameter file: what `file(_:)` found.
    func resolved(_ file: Setting, _ sources: SettingSources) throws -> Certificate {
        let key = sources.setting(
            "--certificate-key",
            self.certificateKey,
            "APNS_CERTIFICATE_KEY_FILE",
            "tool.certificateKeyFile"
        )
        let password = try self.password(sources)
        let name = file.text.lowercased()
        let isPKCS12 = name.hasSuffix(".p12") || name.hasSuffix(".pfx") || file.name.lowercased().contains("pkcs12")
        if isPKCS12 {
            if let key {
                throw UsageError("\(key.name): '\(file.text)' is a PKCS#12 file, which has its key in itself.")
            }
            return Certificate(
                file: file,
                authentication: .certificate(pkcs12File: file.text, passphrase: password ?? "")
            )
        }
        return Certificate(
            file: file,
            authentication: .certificate(certificateFile: file.text, keyFile: key?.text, passphrase: password)
        )
    }

    private func password(_ sources: SettingSources) throws -> String? {
        let file = sources.setting(
            "--certificate-password-file",
            self.certificatePasswordFile,
            "APNS_CERTIFICATE_PASSWORD_FILE",
            "tool.certificatePasswordFile"
        )
        guard let file else {
            return sources.setting("", nil, "APNS_PASSPHRASE", "apns.passphrase")?.text
        }
        let bytes = try Files.contents(of: file.text, option: file.name, limit: 64 * 1024)
        let line = bytes.prefix { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") }
        return String(decoding: line, as: UTF8.self)
    }
}
