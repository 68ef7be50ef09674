/// A static file of the page.
struct PageFile: Sendable, Hashable {
    /// Where it is served, from `/` on.
    var path: String
    /// The value of `content-type`.
    var contentType: String
    var body: String
}
