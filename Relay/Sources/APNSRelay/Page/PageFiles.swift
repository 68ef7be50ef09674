import CAPNSRelayFiles

/// The files that are embedded in the program: the page for operators, and the OpenAPI document of the API.
enum PageFiles {
    /// The files of the page. They are static, need no build step, and load nothing from other servers.
    static let all: [PageFile] = {
        var count = 0
        return UnsafeBufferPointer(start: apns_relay_page(&count), count: count).map(PageFile.init)
    }()

    /// The OpenAPI 3.1 document, served at `/openapi.json`. Tests compare it with the endpoints and the error codes.
    ///
    /// - Parameter parts: documents with more paths and components.
    static func openAPI(with parts: [String]) -> PageFile {
        var file = PageFile(apns_relay_openapi().pointee)
        for part in parts { file.body = JSONMerge.merged(file.body, part) }
        return file
    }
}

extension PageFile {
    fileprivate init(_ file: apns_relay_file) {
        self.init(
            path: String(cString: file.path),
            contentType: String(cString: file.type),
            body: String(decoding: UnsafeBufferPointer(start: file.bytes, count: file.count), as: UTF8.self)
        )
    }
}
