/// A static file that needs no token: one of the page, or the OpenAPI document.
struct PageFile: Sendable, Hashable {
    /// Where it is served, from `/` on.
    var path: String
    /// The value of `content-type`.
    var contentType: String
    var body: String
}
