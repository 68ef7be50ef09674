/// A static file that is served without a token: a file of the page, or the OpenAPI document.
struct PageFile: Sendable, Hashable {
    /// The path at which it is served. It begins with `/`.
    var path: String
    /// The value of `content-type`.
    var contentType: String
    var body: String
}
