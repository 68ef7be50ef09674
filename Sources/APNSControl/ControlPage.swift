import CAPNSControlFiles
import NIOHTTP1

/// The files that the program serves: the page, and the OpenAPI document of the API.
enum ControlPage {
    /// Only the page's own files may run or load. It is a second safeguard: the page shows payloads as text anyway.
    private static let policy = """
        default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
        base-uri 'none'; form-action 'none'; frame-ancestors 'none'
        """

    /// The files of the page by path.
    static let files: [String: ControlResponse] = {
        var count = 0
        let files = UnsafeBufferPointer(start: apns_control_page(&count), count: count)
        return Dictionary(uniqueKeysWithValues: files.map { (String(cString: $0.path), Self.file($0)) })
    }()

    static let openAPI = Self.response(apns_control_openapi().pointee)

    private static func file(_ file: apns_control_file) -> ControlResponse {
        var response = self.response(file)
        response.headers.add(name: "content-security-policy", value: self.policy)
        response.headers.add(name: "referrer-policy", value: "no-referrer")
        return response
    }

    private static func response(_ file: apns_control_file) -> ControlResponse {
        let bytes = UnsafeBufferPointer(start: file.bytes, count: file.count)
        return .bytes(Array(bytes), type: String(cString: file.type))
    }
}
