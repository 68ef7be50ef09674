import CAPNSNghttp2
import CAPNSOpenSSL

/// The versions of the C libraries at run time, which may differ from those used at build time.
package enum LinkedVersions {
    package static var openSSL: String {
        OpenSSL_version(OPENSSL_VERSION).map { String(cString: $0) } ?? "unknown"
    }

    package static var nghttp2: String {
        nghttp2_version(0)?.pointee.version_str.map { String(cString: $0) } ?? "unknown"
    }
}
