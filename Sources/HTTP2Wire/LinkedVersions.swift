import CAPNSNghttp2
import CAPNSOpenSSL

/// The C libraries that this process runs with, which need not be those that it was built with.
package enum LinkedVersions {
    package static var openSSL: String {
        OpenSSL_version(OPENSSL_VERSION).map { String(cString: $0) } ?? "unknown"
    }

    package static var nghttp2: String {
        nghttp2_version(0)?.pointee.version_str.map { String(cString: $0) } ?? "unknown"
    }
}
