import NIOHTTP1

/// Serves the files of the page.
enum ControlPage {
    /// Only the page's own files may run or load. It is a second safeguard: the page shows payloads as text anyway.
    private static let policy = """
        default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
        base-uri 'none'; form-action 'none'; frame-ancestors 'none'
        """

    /// The file at a path; nil if there is none.
    static func file(_ path: [String]) -> ControlResponse? {
        guard path.count <= 1, let file = PageFiles.all["/" + (path.first ?? "")] else { return nil }
        var response = ControlResponse.bytes(Array(file.text.utf8), type: file.type)
        response.headers.add(name: "content-security-policy", value: self.policy)
        response.headers.add(name: "referrer-policy", value: "no-referrer")
        return response
    }
}
