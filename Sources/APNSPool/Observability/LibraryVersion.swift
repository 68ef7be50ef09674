import HTTP2Wire
import Logging

/// The versions that a client logs when it begins to run.
enum LibraryVersion {
    static let library = "0.1.0"

    static var metadata: Logger.Metadata {
        [
            "swift-apns-pool": "\(Self.library)", "openssl": "\(LinkedVersions.openSSL)",
            "nghttp2": "\(LinkedVersions.nghttp2)",
        ]
    }
}
