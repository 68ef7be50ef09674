import APNSTransport
import Logging

/// The versions that a client logs when it begins to run.
enum LibraryVersion {
    static let library = "0.1.0"

    static var metadata: Logger.Metadata {
        [
            "swift-apns-pool": .string(Self.library), "openssl": .string(LinkedVersions.openSSL),
            "nghttp2": .string(LinkedVersions.nghttp2),
        ]
    }
}
