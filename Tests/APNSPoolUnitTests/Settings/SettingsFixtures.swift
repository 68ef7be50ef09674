import APNSSimulator
import Foundation
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

/// Files of every kind that settings name, in a directory that is removed with this object.
final class SettingsFixtures: Sendable {
    static let keyID = "9UC9ZLQ8YW"
    static let teamID = "ABBM6U9RM5"

    let directory: URL
    let certificatePEM: String
    let certificateKeyPEM: String
    let caPEM: String
    let pkcs12: [UInt8]

    var keyFile: String { self.path("AuthKey_\(Self.keyID).p8") }
    var certificateFile: String { self.path("certificate.pem") }
    var certificateKeyFile: String { self.path("certificate-key.pem") }
    var pkcs12File: String { self.path("certificate.p12") }
    var passwordFile: String { self.path("password") }
    var caFile: String { self.path("ca.pem") }

    init() async throws {
        self.directory = FileManager.default.temporaryDirectory.appendingPathComponent("apns-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: self.directory, withIntermediateDirectories: true)
        let simulator = try await Simulator.start()
        self.caPEM = simulator.certificateAuthorityPEM
        let made = Result { try simulator.makeClientCertificate() }
        await simulator.stop()
        self.certificatePEM = try made.get().certificatePEM
        self.certificateKeyPEM = try made.get().privateKeyPEM
        self.pkcs12 = try made.get().pkcs12(passphrase: "open sesame")
        try self.write(KeyTexts.p256, to: self.keyFile)
        try self.write(self.certificatePEM, to: self.certificateFile)
        try self.write(self.certificateKeyPEM, to: self.certificateKeyFile)
        try self.write(self.caPEM, to: self.caFile)
        try self.write("open sesame\nnot the password\n", to: self.passwordFile)
        try Data(self.pkcs12).write(to: URL(fileURLWithPath: self.pkcs12File))
    }

    deinit { try? FileManager.default.removeItem(at: self.directory) }

    func path(_ name: String) -> String { self.directory.appendingPathComponent(name).path }

    func write(_ text: String, to path: String) throws {
        try text.write(to: URL(fileURLWithPath: path), atomically: true, encoding: .utf8)
    }
}

/// A configuration from values whose keys have no prefix.
func configuration(_ values: [String: String]) throws -> APNSClientConfiguration {
    try APNSClientConfiguration(settings: [source(values)])
}

func source(_ values: [String: String]) -> APNSSettingsSource {
    .values(.init(uniqueKeysWithValues: values.map { ("apns.\($0.key)", $0.value) }))
}

/// The faults that these values cause.
func faults(_ values: [String: String]) -> [APNSSettingsError.Fault] {
    let error = #expect(throws: APNSSettingsError.self) { try configuration(values) }
    return error?.faults ?? []
}
